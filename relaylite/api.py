"""`Relay`: a loaded model and the chains that run on it. What scripts, the command line and the terminal UI use.

`with Relay() as relay: print(relay.chain(["plan", "code", "review"]).run("Merge two sorted lists.").text)`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from relaylite.agents import Agent
from relaylite.chain import Chain
from relaylite.policies import Fidelity, Policy, parse_policy
from relaylite.process import available_bytes, resident_bytes
from relaylite.runner import Runner
from relaylite.sampling import Sampling
from relaylite.seam import EngineLike, Memory, ModelInfo
from relaylite.store import Store

DEFAULT_POLICY = "naive"


class Relay:
    """One model in memory, with the store of rows that its chains share. A context manager; `close` frees the model.

    `model`: path of a GGUF file, catalogue name, `hf:owner/repo/file.gguf`, or None for the default model. `policy` and `fidelity`
    are what new chains start with. `n_ctx`: tokens of context; `n_threads`: one a core if None; `n_gpu_layers`: -1 for all;
    `chat_template`: "" for the model's own, "chatml", or the path of a Jinja file; `verbose`: native logs too. `sampling`: values by
    their names in `Sampling`, before which an agent's own values go. `store_bytes`: rows kept in memory, a quarter of what is free now
    if None. `on_progress(fraction)` is called while the model loads, in this thread. `engine`: use this one instead of opening `model`.
    Chains of one Relay share the engine: while one runs, another run is refused with EngineBusy.

    Raises UsageError for bad settings, ModelError if the model cannot be loaded.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        policy: str | Policy = DEFAULT_POLICY,
        fidelity: Fidelity | None = None,
        n_ctx: int | None = None,
        n_threads: int | None = None,
        n_gpu_layers: int | None = None,
        chat_template: str = "",
        sampling: Mapping[str, Any] | Sampling | None = None,
        store_bytes: int | None = None,
        verbose: bool = False,
        on_progress: Callable[[float], None] | None = None,
        engine: EngineLike | None = None,
    ) -> None:
        self.policy = parse_policy(policy, fidelity) if isinstance(policy, str) else policy
        self.sampling = sampling if isinstance(sampling, Sampling) else Sampling().merged(sampling or {})
        if engine is None:
            options = {"n_ctx": n_ctx, "n_threads": n_threads, "n_gpu_layers": n_gpu_layers, "on_progress": on_progress}
            engine = _open(model, chat_template=chat_template, verbose=verbose, **options)
        self._store = Store(engine.layout, available_bytes() // 4 if store_bytes is None else store_bytes)
        self._runner = Runner(engine, self._store)

    @property
    def info(self) -> ModelInfo:
        return self._runner.engine.info

    def chain(
        self, agents: Iterable[str | Agent], *, policy: str | Policy | None = None, sampling: Mapping[str, Any] | None = None
    ) -> Chain:
        """A new conversation with these agents, by name or as values; a name may stand twice. Raises UsageError for unknown ones.

        `policy` and `sampling` replace this Relay's.
        """
        return Chain(self._runner, agents, self.policy if policy is None else policy, self.sampling.merged(sampling or {}))

    def chain_from_dict(self, data: Mapping[str, Any]) -> Chain:
        """The conversation that `Chain.to_dict` wrote. Raises UsageError in one line if `data` is none, or damaged."""
        return Chain.from_dict(self._runner, data, self.sampling)

    def piece(self, token: int) -> bytes:
        """The bytes of one token; b"" for control tokens."""
        return self._runner.tokenizer.piece(token)

    def memory(self) -> Memory:
        self._runner.check_open()
        return replace(self._runner.engine.memory(), store_bytes=self._store.stats().ram_bytes, resident_bytes=resident_bytes())

    def close(self) -> None:
        """Stop what runs, within a second, and free the model; a second time it does nothing. From any thread."""
        self._runner.close()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _open(model: str | Path | None, **options: Any) -> EngineLike:
    """The engine for `model`; options that are None take the engine's own default."""
    from relaylite.catalog import resolve_model
    from relaylite.engine import Engine, EngineOptions

    return Engine.open(resolve_model(model), EngineOptions(**{name: value for name, value in options.items() if value is not None}))
