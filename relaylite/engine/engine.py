"""`Engine`: one model with one live sequence. Places a plan, decodes, samples, and gives the rows back.

What is reused is decided before (planner), what is repaired is decided in `sweep`; this module carries both out.
"""

from __future__ import annotations

import math
import os
import time
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from relaylite.engine import footprint, llama, native, self_check
from relaylite.engine.cache import Cache
from relaylite.engine.interface import Delta, Memory, ModelInfo, Prefill
from relaylite.engine.kept_states import KeptStates
from relaylite.engine.live_sequence import LiveSequence
from relaylite.engine.sweep import ForcedSelection, Sweep
from relaylite.engine.writer import Writer
from relaylite.errors import ContextOverflow, EngineClosed, ModelError, UsageError
from relaylite.events import PhaseName
from relaylite.gguf import fingerprint
from relaylite.gguf.adapters import Adapter, read_adapters
from relaylite.machine.resources import logical_cores, physical_cores
from relaylite.machine.workers import WARNING, Workers
from relaylite.metrics import CellMap
from relaylite.prompt.template import ChatTemplate, read_template
from relaylite.reuse.kv_types import KV_TYPES
from relaylite.reuse.plan import Kind, Plan
from relaylite.reuse.profile import Profile, load_profile
from relaylite.reuse.rows import RowLayout, Rows
from relaylite.sampling import Sampling

MAX_BATCH = 512
MAX_THREADS = 512  # ggml
MAX_CONTEXT = 1 << 22
CONTEXT_STEP = 256  # llama.cpp rounds a context up to a multiple of it, and ends the process where there is room for one output
OnPhase = Callable[[PhaseName], None]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How to open a model. `n_threads` None: the physical cores that this process may use. `relay`: overrides of the profile.

    `rpc`: workers, `host:port` each. `n_gpu_layers` None: none without workers, all with them.
    `lora`: adapters, `FILE` or `FILE:SCALE` each.
    `kept_state_bytes`: of states kept to go on from where rows cannot be placed; None: an eighth of what is free.
    """

    n_ctx: int = 4096
    n_threads: int | None = None
    n_gpu_layers: int | None = None
    rpc: tuple[str, ...] = ()
    lora: tuple[str, ...] = ()
    chat_template: str = ""
    type_k: str = "f16"
    type_v: str = "f16"
    relay: dict[str, Any] = field(default_factory=dict)
    kept_state_bytes: int | None = None
    on_progress: Callable[[float], bool] | None = None

    @property
    def n_offloaded(self) -> int:
        """Layers to put on devices, -1 for all."""
        return self.n_gpu_layers if self.n_gpu_layers is not None else -1 if self.rpc else 0


class Engine:
    """Fulfils `seam.EngineLike` with llama.cpp. Used by one thread at a time, except `cancel`."""

    @classmethod
    def open(cls, path: Path, options: EngineOptions | None = None) -> Engine:
        """Load the GGUF at `path`. Raises ModelError or UsageError, in one line, and holds nothing then."""
        options = options or EngineOptions()
        _check_options(options)
        native.check_build()
        llama.start()
        opened: list[Any] = []
        try:
            return cls(path, options, opened)
        except OSError as error:
            _close_all(opened)
            raise ModelError(f"cannot read {path}: {error.strerror}; it was there a moment ago") from error
        except BaseException:
            _close_all(opened)
            raise

    def __init__(self, path: Path, options: EngineOptions, opened: list[Any]) -> None:
        def keep(thing: Any) -> Any:
            opened.append(thing)
            return thing

        n_threads = options.n_threads or min(physical_cores(), MAX_THREADS)
        adapters = read_adapters(options.lora, path)
        self._opened, self._process = opened, os.getpid()
        self._close = weakref.finalize(self, _close_in, self._process, opened)
        self._close.atexit = False  # the process's memory goes with it
        self._stop = keep(native.Stop())
        workers = keep(Workers(options.rpc)) if options.rpc else None
        self._model = keep(_load_model(path, options, workers.devices if workers else ()))
        for adapter in adapters:
            self._model.apply(adapter.path, adapter.scale)
        n_ctx = math.ceil(options.n_ctx / CONTEXT_STEP) * CONTEXT_STEP
        capture = keep(native.Capture(n_ctx))
        for_context = _context_options(options, n_ctx, n_threads, capture, self._stop)
        if options.n_offloaded == 0:
            footprint.check_context(self._model, for_context)
        self._context: llama.Context = keep(llama.Context(self._model, for_context))
        self._for_context, self._n_gpu_layers = for_context, options.n_offloaded
        cache, refusal = _open_cache(self._context, n_threads, self._stop, keep)
        self.tokenizer = self._model.vocab
        template = read_template(options.chat_template, self._model.chat_template or "")
        self.template = ChatTemplate(template, bos_text=self.tokenizer.bos_text, eos_text=self.tokenizer.eos_text)
        weights = fingerprint.of_file(path)
        self.profile = load_profile(weights, self._model.n_layer).overridden(options.relay)
        self.profile.check_fits(self._model.n_layer)
        self.layout = _layout(cache, [weights, *_named(adapters)], options, self._model, self._context)
        token_bytes = self.layout.token_bytes or footprint.bytes_per_token(self._model, for_context)
        info = _info(self._model, self._context, token_bytes, refusal, [WARNING] if workers else [])
        self.info = replace(info, adapters=tuple(map(str, adapters)))
        self.finish_reason = ""
        self.answer_tokens: tuple[int, ...] = ()
        is_offloaded = not 0 <= options.n_offloaded < self._model.n_layer
        n_loaders = logical_cores() - (0 if is_offloaded else n_threads)  # threads of a sweep wait for the one that lost its core
        self._sequence = LiveSequence(self._context, cache, capture, self._stop, n_loaders=max(0, n_loaders))
        self._sequence.watch({} if refusal else self.profile.captures)
        self._kept_states = (
            None if cache is not None else KeptStates(self._model, self._context, self._sequence, self.layout, options.kept_state_bytes)
        )
        if self._kept_states is not None:
            self.info = replace(self.info, prefix_reuse=self._kept_states.reach)
        self._forced: ForcedSelection | None = None
        self._n_batch: int | None = None
        self._logits: native.F32 | None = None  # of the prompt's last token, where llama.cpp did not compute it

    @property
    def kept_states(self) -> KeptStates | None:
        """What prompts may go on from, where rows are not a store's to give; see `EngineLike.past`."""
        return self._kept_states

    def prefill(self, plan: Plan, on_phase: OnPhase) -> Prefill:
        """Replace the live sequence by the plan's; see `EngineLike.prefill`."""
        self._check_open()
        self._check_plan(plan)
        self._stop.set(False)
        try:
            return self._sweep(plan, on_phase) if plan.count(Kind.SPAN) else self._compute(plan, on_phase)
        except BaseException:
            self._sequence.forget()
            raise

    def _check_plan(self, plan: Plan) -> None:
        if len(plan.tokens) >= self.info.n_ctx:
            raise ContextOverflow(f"a prompt of {len(plan.tokens)} tokens does not fit the context of {self.info.n_ctx}; raise --ctx")
        if any(segment.rows is not None and segment.rows.layout != self.layout for segment in plan.segments):
            raise ModelError("these rows are of another model, KV type or version of llama.cpp; clear the store")
        if plan.count(Kind.SPAN) and self.info.relay_refusal:
            raise UsageError(f"relaying is off for this model: {self.info.relay_refusal}; use policy prefix")

    def _compute(self, plan: Plan, on_phase: OnPhase) -> Prefill:
        """Prefix rows in place, everything else by llama.cpp itself."""
        clock = _Clock()
        on_phase("place")
        n_placed = self._place_prefix(plan) if self._kept_states is None else self._kept_states.take_up(plan)
        place_ms = clock.lap()
        on_phase("suffix")
        self._logits = None
        start = n_placed
        if self._kept_states is not None and plan.policy.use_prefix and (parting := self._kept_states.parting(plan.tokens)):
            self._sequence.compute(plan.tokens[start:parting], self._n_batch)
            self._kept_states.keep()
            start = parting
        self._sequence.compute(plan.tokens[start:], self._n_batch)
        cells = np.full((self.info.n_layer, len(plan.tokens)), CellMap.NEW, np.uint8)
        cells[:, :n_placed] = CellMap.PREFIX
        return Prefill(place_ms, 0.0, clock.lap(), CellMap(cells, np.full(len(plan.tokens), np.nan, np.float32)))

    def _place_prefix(self, plan: Plan) -> int:
        with self._sequence.place(plan, with_gaps=False) as late:
            late.write()
        return len(self._sequence.tokens)

    def _sweep(self, plan: Plan, on_phase: OnPhase) -> Prefill:
        """All rows in place with gaps for new tokens, then one sweep over the layers that fills and repairs them."""
        clock = _Clock()
        on_phase("place")
        with self._sequence.place(plan, with_gaps=True) as late:
            place_ms = clock.lap()
            on_phase("repair")
            assert self._sequence.cache is not None
            states = self._sequence.read_states(len(plan.tokens))
            sweep = Sweep(self._sequence.cache, plan, self._forced or self.profile.parameters(plan.policy), states, late)
            sweep.select()
            repair_ms = clock.lap()
            on_phase("suffix")
            self._logits = sweep.fill()
        for name, (positions, vectors) in sweep.new_states.items():
            self._sequence.write_states(name, positions, vectors)
        return Prefill(place_ms, repair_ms, clock.lap(), sweep.cell_map())

    def generate(self, sampling: Sampling) -> Generator[Delta, None, None]:
        """Sample an answer behind the prompt; see `EngineLike.generate`."""
        self._check_open()
        writer = Writer(self._sequence, self._context, self.tokenizer, self._stop, sampling)
        logits, self._logits = self._logits, None
        try:
            yield from writer.deltas(logits)
        finally:
            self.finish_reason, self.answer_tokens = writer.finish_reason, writer.tokens

    def harvest(self, origin: str, *, heeds_cancel: bool = False) -> Rows:
        """Rows of everything in the live sequence, with captured states; see `EngineLike.harvest`."""
        self._check_open()
        if self._kept_states is not None:
            self._kept_states.keep()
        return self._sequence.rows(self.layout, origin, heeds_stop=heeds_cancel)

    def use(
        self,
        profile: Profile,
        *,
        forced: ForcedSelection | None = None,
        captures: Mapping[str, str] | None = None,
        n_batch: int | None = None,
    ) -> None:
        """From the next prefill on, repair as `profile` says, or compute in every layer just the span tokens that `forced(plan)` names.

        `captures`: states to capture while decoding (name in `Rows.states` → graph node) instead of those that `profile` needs; a model
        that cannot relay captures none. `n_batch`: tokens that llama.cpp computes at once in a prefill, instead of as many as it takes.
        Empties the live sequence, so the next prefill goes on from nothing that is in it.
        Raises UsageError if `profile` names layers that the model lacks, and changes nothing then; EngineClosed.
        """
        self._check_open()
        profile.check_fits(self.info.n_layer)
        self.profile, self._forced, self._n_batch = profile, forced, n_batch
        wanted = profile.captures if captures is None else captures
        self._sequence.watch({} if self.info.relay_refusal else wanted)

    def logits(self) -> native.F32:
        """float32 `[n_vocab]` behind the prompt, before anything was generated."""
        return self._context.logits() if self._logits is None else self._logits

    def follow(self, tokens: list[int]) -> native.F32:
        """Append `tokens` (at most 512) in one batch. Returns float32 `[n, n_vocab]`, the logits behind each of them."""
        self._check_open()
        self._logits = None
        try:
            self._sequence.decode(tokens, all_logits=True)
        except BaseException:
            self._sequence.forget()
            raise
        return self._context.all_logits(len(tokens))

    def cancel(self) -> None:
        """From any thread: what runs ends within a graph node."""
        if self._opened:
            self._stop.set(True)

    def memory(self) -> Memory:
        self._check_open()
        taken = native.memory_of(self._context.address)
        captured = self._sequence.state_bytes_per_token * self.info.n_ctx
        kept = 0 if self._kept_states is None else self._kept_states.n_bytes
        return Memory(self._model.n_bytes, taken.cache, taken.compute, capture_bytes=captured, store_bytes=kept)

    def forecast(self, n_ctx: int) -> Memory:
        """What this model would take with another context, before it is made."""
        self._check_open()
        wanted = footprint.forecast(self._model, replace(self._for_context, n_ctx=n_ctx), self._n_gpu_layers)
        return replace(wanted, model_bytes=self._model.n_bytes, capture_bytes=self._sequence.state_bytes_per_token * n_ctx)

    def close(self) -> None:
        """Free context and model; a second time, or in a forked process, it does nothing. An engine that is dropped is closed too."""
        self._close()

    def _check_open(self) -> None:
        if not self._opened:
            raise EngineClosed("the model is closed; open it again")
        if os.getpid() != self._process:
            raise EngineClosed("the model was loaded before this process was forked; open it again here")


class _Clock:
    """Milliseconds since it was made or last asked."""

    def __init__(self) -> None:
        self._at = time.perf_counter()

    def lap(self) -> float:
        before, self._at = self._at, time.perf_counter()
        return (self._at - before) * 1e3


def _context_options(
    options: EngineOptions, n_ctx: int, n_threads: int, capture: native.Capture, stop: native.Stop
) -> llama.ContextOptions:
    return llama.ContextOptions(
        n_ctx,
        MAX_BATCH,
        n_threads,
        options.type_k,
        options.type_v,
        eval_callback=(native.Capture.callback, capture.address),
        abort_callback=(native.Stop.callback, stop.address),
    )


def _check_options(options: EngineOptions) -> None:
    known = ", ".join(KV_TYPES)
    for name, value in (("type_k", options.type_k), ("type_v", options.type_v)):
        if value not in KV_TYPES:
            raise UsageError(f"unknown {name} {value!r}; known: {known}")
    if not 1 <= options.n_ctx <= MAX_CONTEXT:
        raise UsageError(f"a context of {options.n_ctx} tokens is not possible; give --ctx 1 to {MAX_CONTEXT}")
    if options.n_threads is not None and options.n_threads < 1:
        raise UsageError(f"{options.n_threads} threads are not possible; give --threads 1 or more")


def _load_model(path: Path, options: EngineOptions, devices: Sequence[int]) -> llama.Model:
    footprint.check_load(path)
    model = llama.Model(
        path,
        n_gpu_layers=options.n_offloaded,
        use_extra_buffers=native.extra_buffers_work(),
        devices=devices,
        on_progress=options.on_progress,
    )
    if model.has_encoder:
        model.close()
        raise ModelError(f"{path} is an encoder–decoder model; relaylite runs decoder-only chat models")
    return model


def _open_cache(context: llama.Context, n_threads: int, stop: native.Stop, keep: Callable[[Any], Any]) -> tuple[Cache | None, str | None]:
    """The rows of the context, and why spans cannot be relayed (None if they can)."""
    try:
        cache = keep(Cache(context.address, n_threads, stop))
    except native.Unsupported as error:
        return None, str(error)
    return cache, cache.refusal or self_check.run(cache, context) or None


def _named(adapters: Sequence[Adapter]) -> list[str]:
    """What tells apart rows computed with these adapters, in whatever order they were given: the content of the files, and the scales."""
    return sorted(f"{fingerprint.of_file(adapter.path)}:{adapter.scale!r}" for adapter in adapters)


def _layout(cache: Cache | None, weights: Sequence[str], options: EngineOptions, model: llama.Model, context: llama.Context) -> RowLayout:
    """Some RoPE factors depend on whether the context is longer than the original one; an environment variable ends a cache rotation."""
    original = model.arch_meta("rope.scaling.original_context_length") or str(model.n_ctx_train)
    is_long = original.isdigit() and context.n_ctx > int(original)
    rotation = os.environ.get("LLAMA_ATTN_ROT_DISABLE", "")
    name = fingerprint.combined(*weights, options.type_k, options.type_v, native.LLAMA_CPP_PYTHON, is_long, rotation)
    return RowLayout((), (), name) if cache is None else RowLayout(cache.k_bytes, cache.v_bytes, name)


def _info(model: llama.Model, context: llama.Context, token_bytes: int, refusal: str | None, warnings: list[str]) -> ModelInfo:
    if context.n_ctx > model.n_ctx_train > 0:
        warnings.append(f"the context of {context.n_ctx} tokens is longer than the {model.n_ctx_train} that the model was trained for")
    return ModelInfo(
        name=model.path.stem,
        path=str(model.path),
        architecture=model.meta("general.architecture") or "?",
        n_layer=model.n_layer,
        n_ctx=context.n_ctx,
        n_ctx_train=model.n_ctx_train,
        n_params=model.n_params,
        relay_refusal=refusal,
        n_embd=model.n_embd,
        n_head=model.n_head,
        n_head_kv=model.n_head_kv,
        n_vocab=model.vocab.n_tokens,
        file_bytes=model.path.stat().st_size,
        kv_bytes_per_token=token_bytes,
        quantization=model.quantization,
        warnings=tuple(warnings),
    )


def _close_in(process: int, opened: list[Any]) -> None:
    """A forked process has no threads of llama.cpp: freeing there would wait for them."""
    if os.getpid() == process:
        _close_all(opened)


def _close_all(opened: list[Any]) -> None:
    while opened:
        opened.pop().close()
