"""`EngineOptions`: how to open a model. Loads nothing heavy, so that callers can say what they want before llama.cpp is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

from relaylite.errors import UsageError
from relaylite.reuse.kv_types import KV_TYPES

DEFAULT_N_CTX = 4096
MAX_N_CTX = 1 << 22
MAX_THREADS = 512  # ggml
MAX_LAYERS = 2**31 - 1
OnProgress = Callable[[float], None]
OnNotice = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Plain values; `Engine.open` checks them."""

    n_ctx: int = DEFAULT_N_CTX
    """Tokens of context, 1 to 4,194,304. llama.cpp rounds it up to a multiple of 256."""

    n_threads: int | None = None
    """CPU threads, 1 to 512. None: one for each physical core that this process may use."""

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

    trial: bool = True
    """Whether a file that was never opened on this machine is first opened in a process of its own: a broken one may end it."""

    on_notice: OnNotice | None = None
    """`on_notice(text)` is called in the thread that opens, with one line on what only the first opening of a file has to do, and with ""
    when that is done."""

    on_progress: OnProgress | None = None
    """`on_progress(fraction)` is called in the thread that opens: at least every 0.1 s while the file is tried and loaded, with 1.0 while
    the model is checked. What it raises stops opening within a second and is raised from there as it is."""

    @property
    def n_offloaded(self) -> int:
        """Layers to put on devices, -1 for all."""
        return self.n_gpu_layers if self.n_gpu_layers is not None else -1 if self.rpc else 0

    def tell(self, notice: str) -> None:
        if self.on_notice is not None:
            self.on_notice(notice)

    def check(self) -> None:
        """Raise UsageError for values that no model can be opened with, of whatever type they are."""
        if not isinstance(self.kv_type, str) or self.kv_type not in KV_TYPES:
            raise UsageError(f"unknown kv_type {self.kv_type!r}; known: {', '.join(KV_TYPES)}")
        if not 1 <= whole("n_ctx", self.n_ctx) <= MAX_N_CTX:
            raise UsageError(f"a context of {self.n_ctx} tokens is not possible; give --ctx 1 to {MAX_N_CTX}")
        if self.n_threads is not None and not 1 <= whole("n_threads", self.n_threads) <= MAX_THREADS:
            raise UsageError(f"{self.n_threads} threads are not possible; give --threads 1 to {MAX_THREADS}")
        if self.n_gpu_layers is not None and not -1 <= whole("n_gpu_layers", self.n_gpu_layers) <= MAX_LAYERS:
            raise UsageError(f"{self.n_gpu_layers} layers on the GPU are not possible; give --gpu-layers 0 or more, or -1 for all")
        if self.kept_state_bytes is not None:
            n_bytes("kept_state_bytes", self.kept_state_bytes)
        for name, names in (("rpc", self.rpc), ("lora", self.lora)):
            if not isinstance(names, list | tuple) or not all(isinstance(each, str) for each in names):
                raise UsageError(f"{name} must be texts, not {names!r}")
        if not isinstance(self.chat_template, str):
            raise UsageError(f"chat_template must be chatml or the path of a file, not {self.chat_template!r}")
        if not isinstance(self.relay, Mapping):
            raise UsageError(f"relay must be parameters by their names, not {self.relay!r}")
        for name, function in (("on_progress", self.on_progress), ("on_notice", self.on_notice)):
            if function is not None and not callable(function):
                raise UsageError(f"{name} must be a function, not {function!r}")


def whole(name: str, value: object) -> int:
    """`value`, if it is a whole number. Raises UsageError."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise UsageError(f"{name} must be a whole number, not {value!r}")
    return int(value)


def n_bytes(name: str, value: object) -> int:
    """`value`, if it is a number of bytes. Raises UsageError."""
    if whole(name, value) < 0:
        raise UsageError(f"{name} must be 0 bytes or more, not {value!r}")
    return whole(name, value)
