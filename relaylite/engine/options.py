"""`EngineOptions`: how to open a model. Loads nothing heavy, so that callers can say what they want before llama.cpp is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from relaylite.errors import UsageError
from relaylite.reuse.kv_types import KV_TYPES

DEFAULT_N_CTX = 4096
MAX_N_CTX = 1 << 22
OnProgress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Plain values; `Engine.open` checks them."""

    n_ctx: int = DEFAULT_N_CTX
    """Tokens of context, 1 to 4,194,304. llama.cpp rounds it up to a multiple of 256."""

    n_threads: int | None = None
    """CPU threads, at least 1. None: one for each physical core that this process may use."""

    n_gpu_layers: int | None = None
    """Layers to put on devices, -1 for all. None: none without workers, all with them."""

    rpc: tuple[str, ...] = ()
    """Workers that hold layers, `host:port` each."""

    lora: tuple[str, ...] = ()
    """LoRA adapters, `FILE` or `FILE:SCALE` each."""

    kv_type: str = "f16"
    """Type of the rows in the cache, a name of `KV_TYPES`."""

    chat_template: str = ""
    """"" for the model's own, "chatml", or the path of a Jinja file."""

    relay: Mapping[str, Any] = field(default_factory=dict)
    """Values that replace those of the model's profile."""

    kept_state_bytes: int | None = None
    """Budget for kept states, of a model whose rows cannot be placed. None: an eighth of the free memory."""

    on_progress: OnProgress | None = None
    """`on_progress(fraction)` is called in the thread that opens: at least every 0.1 s while the model loads, with 1.0 while it is checked.
    What it raises stops opening within a second and is raised from there as it is."""

    @property
    def n_offloaded(self) -> int:
        """Layers to put on devices, -1 for all."""
        return self.n_gpu_layers if self.n_gpu_layers is not None else -1 if self.rpc else 0

    def check(self) -> None:
        """Raise UsageError for values that no model can be opened with."""
        if self.kv_type not in KV_TYPES:
            raise UsageError(f"unknown kv_type {self.kv_type!r}; known: {', '.join(KV_TYPES)}")
        if not 1 <= self.n_ctx <= MAX_N_CTX:
            raise UsageError(f"a context of {self.n_ctx} tokens is not possible; give --ctx 1 to {MAX_N_CTX}")
        if self.n_threads is not None and self.n_threads < 1:
            raise UsageError(f"{self.n_threads} threads are not possible; give --threads 1 or more")
