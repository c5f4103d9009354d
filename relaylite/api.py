"""`Relay`: a loaded model, its store, and the chains that run on both. What scripts, the command line and the terminal UI use.

`with Relay() as relay: print(relay.chain(["plan", "code", "review"]).run("Merge two sorted lists.").text)`
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from relaylite.chain.agents import Agent
from relaylite.chain.chain import Chain
from relaylite.completion.answer import Finished
from relaylite.completion.completions import DEFAULT_PARALLEL, Completions
from relaylite.completion.reading import last_answer, last_answer_async, messages_of
from relaylite.completion.request import ChatMessage, CompletionRequest
from relaylite.engine.interface import EngineLike, Memory, ModelInfo
from relaylite.engine.options import DEFAULT_N_CTX, EngineOptions, OnNotice, OnProgress, n_bytes
from relaylite.errors import RelayliteError, UsageError
from relaylite.machine.resources import available_bytes, resident_bytes
from relaylite.reuse.policies import Fidelity, Policy, parse_policy
from relaylite.runs.runner import Runner
from relaylite.sampling import Sampling
from relaylite.store import Store
from relaylite.store.codec import CODECS, PLAIN, Codec
from relaylite.store.folder import DISK_BYTES

DEFAULT_POLICY = "relay"

logging.getLogger("relaylite").addHandler(logging.NullHandler())  # else Python prints native errors, a stopped decode among them


class Relay:
    """One model in memory, with the store of rows that its chains share. A context manager; `close` frees the model.

    Chains of one Relay share the engine: while one runs, another run is refused with EngineBusy. Native logs go to Python's logging,
    under "relaylite".

    What to run, and how chains start:
    - `model`: path of a GGUF file, catalogue name, `hf:owner/repo/file.gguf`, or None for the default model.
    - `policy`, `fidelity`: of new chains.
    - `sampling`: values by their names in `Sampling`. An agent's own values replace them. What is not given, each role has values of its
      own for that keep answers from repeating themselves; `{"temperature": 0}` is plain greedy, and so is a `Sampling`, which says all.
    - `n_parallel`: completions that may run at the same time, in turns; each takes a context of its own once it is needed.
    - `settle_after_s`: seconds without a run, after which a chain's earlier messages are computed exactly in the background; None: never.

    How to open the model (`EngineOptions` says more):
    - `n_ctx`: tokens of context, 4096 if None. `n_threads`: CPU threads, one for each physical core if None.
    - `n_gpu_layers`: layers to put on the GPU, -1 for all.
    - `rpc`: workers that hold layers, `host:port` each. All layers go there unless `n_gpu_layers` says otherwise (docs/backends.md).
    - `lora`: LoRA adapters, `FILE` or `FILE:SCALE` each.
    - `kv_type`: type of the rows in the cache.
    - `chat_template`: "" for the model's own, "chatml", or the path of a Jinja file.
    - `relay`: values that replace those of the model's profile.
    - `trial`: whether a file that was never opened on this machine is first opened in a process of its own: a broken one may end it.
    - `on_progress(fraction)`: called in this thread while the file is tried and loaded, and with 1.0 while the model is checked. What it
      raises stops opening within a second and comes out here.
    - `on_notice(text)`: called in this thread with what only the first opening of a file has to do, and with "" when that is done.
    - `engine`: use this one instead of opening `model`.

    Where rows are kept:
    - `store_bytes`: budget in memory, a quarter of what is free now if None.
    - `store_folder`: where more rows are kept on disk, up to `store_disk_bytes`; None: nowhere.
    - `store_codec`: of the rows on disk, a name of `relaylite.store.codec.CODECS`.

    Raises UsageError for values that cannot be, ModelError if the model cannot be loaded.
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
        rpc: str | Sequence[str] = (),
        lora: str | Sequence[str] = (),
        kv_type: str = "f16",
        chat_template: str = "",
        relay: Mapping[str, Any] | None = None,
        sampling: Mapping[str, Any] | Sampling | None = None,
        store_bytes: int | None = None,
        store_folder: Path | None = None,
        store_disk_bytes: int = DISK_BYTES,
        store_codec: str = PLAIN.name,
        n_parallel: int = DEFAULT_PARALLEL,
        settle_after_s: float | None = None,
        trial: bool = True,
        on_progress: OnProgress | None = None,
        on_notice: OnNotice | None = None,
        engine: EngineLike | None = None,
    ) -> None:
        self.policy = parse_policy(policy, fidelity) if isinstance(policy, str) else policy
        self._told = sampling.values() if isinstance(sampling, Sampling) else dict(sampling or {})
        Sampling().merged(self._told)
        codec = _codec(store_codec)
        _check_amounts(store_bytes, store_disk_bytes, settle_after_s)
        if engine is None:
            options = EngineOptions(
                n_ctx=DEFAULT_N_CTX if n_ctx is None else n_ctx,
                n_threads=n_threads,
                n_gpu_layers=n_gpu_layers,
                rpc=_listed("rpc", rpc),
                lora=_listed("lora", lora),
                kv_type=kv_type,
                chat_template=chat_template,
                relay={} if relay is None else relay,
                kept_state_bytes=store_bytes,
                trial=trial,
                on_progress=on_progress,
                on_notice=on_notice,
            )
            engine = _open(model, options)
        self._store = _store_of(engine, store_bytes, store_folder, store_disk_bytes, codec)
        self._runner = Runner(engine, self._store)
        self._settle_after_s = settle_after_s
        self.completions = Completions(self._runner, n_parallel)

    @property
    def info(self) -> ModelInfo:
        return self._runner.info

    def chain(
        self, agents: Iterable[str | Agent], *, policy: str | Policy | None = None, sampling: Mapping[str, Any] | None = None
    ) -> Chain:
        """A new conversation with these agents, by name or as values; a name may stand twice. Raises UsageError for unknown ones.

        `policy` and `sampling` replace this Relay's.
        """
        chosen = self.policy if policy is None else policy
        told = {**self._told, **(sampling or {})}
        Sampling().merged(told)
        return Chain(self._runner, agents, chosen, told, self._settle_after_s)

    def chain_from_dict(self, data: Mapping[str, Any]) -> Chain:
        """The conversation that `Chain.to_dict` wrote. Raises UsageError in one line if `data` is none, or damaged."""
        return Chain.from_dict(self._runner, data, self._told, self._settle_after_s)

    def complete(self, messages: str | Iterable[ChatMessage | Mapping[str, str]], **asked: Any) -> Finished:
        """One answer to `messages`: values, mappings with "role" and "content", or one text of the user.

        Whatever an earlier completion read or wrote is taken over, wherever it stands in the messages. `asked`: `policy` and `fidelity`,
        values by their names in `Sampling`, `scope` and `n_logprobs` as in `CompletionRequest`. Waits while others run.

        Raises UsageError and ContextOverflow for what cannot be, EngineClosed if the model is closed meanwhile.
        """
        return last_answer(self.completions.submit(self._request(messages, asked)).events())

    async def complete_async(self, messages: str | Iterable[ChatMessage | Mapping[str, str]], **asked: Any) -> Finished:
        """The same in an event loop. A task that is cancelled stops computing."""
        return await last_answer_async(self.completions.submit(self._request(messages, asked)).events_async())

    def _request(self, messages: str | Iterable[ChatMessage | Mapping[str, str]], asked: Mapping[str, Any]) -> CompletionRequest:
        rest = dict(asked)
        policy, fidelity = rest.pop("policy", self.policy), rest.pop("fidelity", None)
        named = {name: rest.pop(name) for name in ("scope", "n_logprobs") if name in rest}
        chosen = parse_policy(policy, fidelity) if isinstance(policy, str) else policy
        return CompletionRequest(messages_of(messages), policy=chosen, sampling=Sampling().merged({**self._told, **rest}), **named)

    def piece(self, token: int) -> bytes:
        """The bytes of one token; b"" for control tokens."""
        return self._runner.tokenizer.piece(token)

    def memory(self) -> Memory:
        self._runner.check_open()
        of_engine = self._runner.engine.memory()
        kept = of_engine.store_bytes + self._store.stats().ram_bytes
        return replace(of_engine, store_bytes=kept, resident_bytes=resident_bytes())

    def forecast(self, n_ctx: int) -> Memory:
        """What this model would take with a context of so many tokens. Raises ModelError if llama.cpp would refuse it."""
        self._runner.check_open()
        return self._runner.engine.forecast(n_ctx)

    def close(self) -> None:
        """Stop what runs, within a second, write rows to the store's folder if it has one, and free the model. From any thread.

        A second time it does nothing.
        """
        if not self._runner.is_closed:
            try:
                self.completions.close()
                self._runner.close()
            finally:
                self._store.close()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """What closing raises is a note to the error that led here, if one did."""
        try:
            self.close()
        except RelayliteError as failed:
            if error is None:
                raise
            error.add_note(str(failed))


def _listed(name: str, names: str | Sequence[str]) -> tuple[str, ...]:
    """Names from a list, or from one text with commas between them. Raises UsageError."""
    if isinstance(names, str):
        return tuple(names.split(",")) if names else ()
    if not isinstance(names, Sequence):
        raise UsageError(f"{name} must be texts, not {names!r}")
    return tuple(names)


def _check_amounts(store_bytes: int | None, store_disk_bytes: int, settle_after_s: float | None) -> None:
    if store_bytes is not None:
        n_bytes("store_bytes", store_bytes)
    n_bytes("store_disk_bytes", store_disk_bytes)
    is_number = isinstance(settle_after_s, int | float) and not isinstance(settle_after_s, bool)
    if settle_after_s is not None and not (is_number and 0 < settle_after_s < math.inf):
        raise UsageError(f"settle_after_s must be a number of seconds, or None for never, not {settle_after_s!r}")


def _store_of(engine: EngineLike, n_bytes: int | None, folder: Path | None, disk_bytes: int, codec: Codec) -> Store:
    """By default it may take a quarter of the free memory. The engine is closed if there can be no store."""
    ram_bytes = available_bytes() // 4 if n_bytes is None else n_bytes
    try:
        return Store(engine.layout, ram_bytes, folder=folder, disk_bytes=disk_bytes, codec=codec, n_vocab=engine.tokenizer.n_tokens)
    except BaseException:
        engine.close()
        raise


def _codec(name: str) -> Codec:
    if not isinstance(name, str) or name not in CODECS:
        raise UsageError(f"unknown codec of stored rows {name!r}; known: {', '.join(CODECS)}")
    return CODECS[name]


def _open(model: str | Path | None, options: EngineOptions) -> EngineLike:
    from relaylite.engine.engine import Engine
    from relaylite.gguf.catalog import resolve_model

    return Engine.open(resolve_model(model), options)
