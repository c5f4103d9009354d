"""`Engine`: one model with one live sequence. Places a plan, decodes, samples, and gives the rows back.

What is reused is decided before (planner), what is repaired is decided in `rectify`; this module carries both out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from relaylite import fingerprint, llama, native, selfcheck
from relaylite.errors import Cancelled, EngineClosed, ModelError, NativeError, RelayliteError, UsageError
from relaylite.events import PhaseName
from relaylite.metrics import FINISH_CANCELLED, FINISH_LENGTH, FINISH_STOP, CellMap
from relaylite.plan import Kind, Plan
from relaylite.profile import Profile, load_profile
from relaylite.rectify import Pick, Sweep
from relaylite.rows import RowLayout, Rows, Tokens
from relaylite.sampling import Sampling
from relaylite.seam import Delta, Memory, ModelInfo, Prefill
from relaylite.template import ChatTemplate, read_template
from relaylite.textstream import TextStream

MAX_BATCH = 512
MAX_CONTEXT = 1 << 22
UNLIMITED = 1 << 30
ABORTED = 2  # llama_decode
OnPhase = Callable[[PhaseName], None]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How to open a model. `n_threads` None: the physical cores of this process. `relay`: overrides of the profile's parameters."""

    n_ctx: int = 4096
    n_threads: int | None = None
    n_gpu_layers: int = 0
    chat_template: str = ""
    type_k: str = "f16"
    type_v: str = "f16"
    relay: dict[str, Any] = field(default_factory=dict)
    on_progress: Callable[[float], bool] | None = None


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
        except BaseException:
            _close_all(opened)
            raise

    def __init__(self, path: Path, options: EngineOptions, opened: list[Any]) -> None:
        def keep(thing: Any) -> Any:
            opened.append(thing)
            return thing

        n_threads = options.n_threads or _physical_cores()
        self._opened = opened
        self._stop = keep(native.Stop())
        self._model = keep(_load_model(path, options))
        self._capture = keep(native.Capture(max(options.n_ctx, 256) + 256))
        self._context = keep(
            llama.Context(
                self._model,
                llama.ContextOptions(
                    options.n_ctx, MAX_BATCH, n_threads, options.type_k, options.type_v,
                    eval_callback=(native.Capture.callback, self._capture.address),
                    abort_callback=(native.Stop.callback, self._stop.address),
                ),
            )
        )  # fmt: skip
        self._cells, refusal = _open_cells(self._context, n_threads, self._stop)
        if self._cells is not None:
            keep(self._cells)
        vocab = self._model.vocab
        self.tokenizer = vocab
        self.template = ChatTemplate(
            read_template(options.chat_template, self._model.chat_template or ""), bos_text=vocab.bos_text, eos_text=vocab.eos_text
        )
        weights = fingerprint.of_file(path)
        self.profile = load_profile(weights, self._model.n_layer).overridden(options.relay)
        self.layout = _layout(self._cells, weights, options)
        self.info = _info(self._model, self._context, self.layout, refusal)
        self.finish_reason = ""
        self.answer_tokens: tuple[int, ...] = ()
        self._live: list[int] = []
        self._exact_until = 0  # positions before this hold rows that llama.cpp computed behind exactly these tokens
        self._logits: native.F32 | None = None
        self._pick: Pick | None = None
        self._watch(self.profile.captures)

    # -- prompt ----------------------------------------------------------------------------------------------------

    def prefill(self, plan: Plan, on_phase: OnPhase) -> Prefill:
        """Replace the live sequence by the plan's; see `EngineLike.prefill`."""
        self._check_open()
        self._stop.set(False)
        if len(plan.tokens) >= self.info.n_ctx:
            raise UsageError(f"a prompt of {len(plan.tokens)} tokens does not fit the context of {self.info.n_ctx}; raise --ctx")
        try:
            return self._sweep(plan, on_phase) if plan.count(Kind.SPAN) else self._compute(plan, on_phase)
        except BaseException:
            self._forget()
            raise

    def _compute(self, plan: Plan, on_phase: OnPhase) -> Prefill:
        """Prefix rows in place, everything else by llama.cpp itself."""
        started = time.perf_counter()
        on_phase("place")
        n_placed = self._place(plan, with_gaps=False)
        placed = time.perf_counter()
        on_phase("suffix")
        self._decode_all(plan.tokens, n_placed)
        self._logits = None
        self._live = plan.tokens.tolist()
        cells = np.full((self.layout.n_layer, len(plan.tokens)), CellMap.NEW, np.uint8)
        cells[:, :n_placed] = CellMap.PREFIX
        deviation = np.full(len(plan.tokens), np.nan, np.float32)
        return Prefill(_ms(started, placed), 0.0, _ms(placed, time.perf_counter()), CellMap(cells, deviation))

    def _sweep(self, plan: Plan, on_phase: OnPhase) -> Prefill:
        """All rows in place with gaps for new tokens, then one sweep over the layers that fills and repairs them."""
        assert self._cells is not None
        started = time.perf_counter()
        on_phase("place")
        self._place(plan, with_gaps=True)
        self._live = plan.tokens.tolist()
        placed = time.perf_counter()
        on_phase("rectify")
        sweep = Sweep(self._cells, plan, self.profile.parameters(plan.policy), self._read_states(len(plan.tokens)), self._pick)
        sweep.select()
        selected = time.perf_counter()
        on_phase("suffix")
        self._logits = sweep.fill()
        for name, (positions, vectors) in sweep.new_states.items():
            self._write_states(name, positions, vectors)
        return Prefill(_ms(started, placed), _ms(placed, selected), _ms(selected, time.perf_counter()), sweep.cell_map())

    def _place(self, plan: Plan, *, with_gaps: bool) -> int:
        """Bring the live sequence to the plan's prefix, or with gaps to all its positions. Returns the positions now held."""
        segments = plan.segments if with_gaps else [s for s in plan.segments[:1] if s.kind is Kind.PREFIX]
        keep = self._kept_prefix(plan)
        self._truncate(keep)
        placements, position = [], 0
        for segment in segments:
            start = max(segment.start, keep)
            if start < segment.end:
                match = segment.match
                first = 0 if match is None else match.offset + start - match.start
                delta = 0 if match is None else start - (match.rows.position + first)
                placements.append(native.Placement(segment.end - start, None if match is None else match.rows, first, delta))
                if match is not None:
                    self._keep_states(start, match.rows, first, segment.end - start)
            position = segment.end
        if placements and self._cells is not None:
            self._cells.append(placements)
        return position

    def _kept_prefix(self, plan: Plan) -> int:
        """Leading positions of the live sequence that stay. Notes how far rows are exact once the plan is carried out."""
        segment = plan.segments[0]
        rows, n = (None, 0) if segment.match is None else (segment.match.rows, segment.end)
        n_exact = 0 if rows is None else min(rows.n_exact, n)
        keep = _common(self._live[: self._length()], plan.tokens[:n])
        if n_exact > self._exact_until:
            keep = min(keep, self._exact_until)
        is_exact = max(keep, n_exact) == n and keep <= self._exact_until
        first_span = next((s.start for s in plan.of(Kind.SPAN)), UNLIMITED)
        self._exact_until = first_span if is_exact else min(max(keep, n_exact), self._exact_until if keep else n)
        return keep

    def _truncate(self, position: int) -> None:
        if position == 0:
            self._context.clear()
        elif self._cells is not None:
            self._cells.truncate(position)
        if self._states:
            self._capture.seek(position)

    def _decode_all(self, tokens: Tokens, start: int) -> None:
        """Compute tokens `[start, n)` of the prompt by llama.cpp itself, in batches."""
        for first in range(start, len(tokens), MAX_BATCH):
            self._decode(tokens[first : first + MAX_BATCH].tolist(), first)

    def _decode(self, tokens: list[int], position: int) -> None:
        last = position + len(tokens) - 1
        is_watched = self._cells is not None and len(tokens) > 1
        if self._cells is not None and is_watched:
            self._cells.mark(last)
        code = self._context.decode(tokens, position)
        if code == ABORTED or self._stop.is_set:
            raise Cancelled("stopped")
        if code != 0:
            raise NativeError(f"llama.cpp could not compute {len(tokens)} tokens at position {position} (code {code}): {llama.last_error()}")
        if self._cells is not None and is_watched:
            self._cells.check(last)

    # -- captured states ---------------------------------------------------------------------------------------------

    def _watch(self, captures: Mapping[str, str]) -> None:
        self._states = dict(captures) if self.info.relay_refusal is None else {}
        self._capture.watch({node: self._width(node) for node in self._states.values()})

    def _width(self, node: str) -> int:
        assert self._cells is not None
        return self._cells.info.n_attn if node.startswith("kqv_out") else self._cells.info.n_embd

    def _keep_states(self, start: int, rows: Rows, first: int, n: int) -> None:
        for name, node in self._states.items():
            vectors = rows.states.get(name)
            if vectors is not None:
                self._capture.write(node, start, vectors[first : first + n])

    def _read_states(self, n: int) -> dict[str, native.F16]:
        return {name: self._capture.read(node, 0, n) for name, node in self._states.items()}

    # -- answer --------------------------------------------------------------------------------------------------------

    def generate(self, sampling: Sampling) -> Generator[Delta, None, None]:
        """Sample an answer behind the prompt; see `EngineLike.generate`."""
        self._check_open()
        sampler = llama.Sampler(sampling, self.tokenizer.n_tokens)
        text = TextStream(sampling.stop)
        answer: list[int] = []
        n_prompt = len(self._live)
        self.finish_reason, self.answer_tokens = FINISH_CANCELLED, ()
        try:
            if sampling.repeat_penalty != 1.0:
                for token in self._live[-llama.Sampler.PENALTY_LAST_N :]:
                    sampler.accept(token)
            yield from self._write(sampler, text, answer, sampling.max_tokens)
        finally:
            sampler.close()
            self.answer_tokens = tuple(answer[: text.n_kept] if text.is_stopped else answer)
            self._cut_answer(n_prompt + len(self.answer_tokens))

    def _write(self, sampler: llama.Sampler, text: TextStream, answer: list[int], max_tokens: int) -> Generator[Delta, None, None]:
        while True:
            if len(answer) == max_tokens or len(self._live) >= self.info.n_ctx:
                self.finish_reason = FINISH_LENGTH
                break
            self._check_stop()
            started = time.perf_counter()
            token = sampler.sample(self._context) if self._logits is None else sampler.sample_from(self._logits)
            sample_ms = _ms(started, time.perf_counter())
            self._logits = None
            if self.tokenizer.is_eog(token):
                self.finish_reason = FINISH_STOP
                yield Delta(text.finish(), token, sample_ms)
                return
            answer.append(token)
            shown = text.feed(self.tokenizer.piece(token))
            if text.is_stopped:
                self.finish_reason = FINISH_STOP
                yield Delta(shown, token, sample_ms)
                return
            yield Delta(shown, token, sample_ms)
            if len(answer) != max_tokens and len(self._live) + 1 < self.info.n_ctx:
                self._check_stop()
                self._decode([token], len(self._live))
                self._live.append(token)
        rest = text.finish()
        if rest:
            yield Delta(rest, answer[-1], 0.0)

    def _cut_answer(self, n: int) -> None:
        """Rows behind a stop string are not kept."""
        if self._cells is not None and n < len(self._cells):
            self._cells.truncate(n)
        del self._live[n:]

    # -- for measuring -----------------------------------------------------------------------------------------------------

    def use(self, profile: Profile, *, pick: Pick | None = None, captures: Mapping[str, str] | None = None) -> None:
        """Relay as `profile` says from now on, or recompute the span tokens that `pick` names and no others. Empties the live sequence.

        `captures`: states to capture (name → graph node) instead of those that `profile` needs.
        """
        self._check_open()
        self._forget()
        self.profile, self._pick = profile, pick
        self._watch(profile.captures if captures is None else captures)

    def logits(self) -> native.F32:
        """float32 `[n_vocab]` behind the prompt, before anything was generated."""
        return self._context.logits() if self._logits is None else self._logits

    def follow(self, tokens: list[int]) -> native.F32:
        """Append `tokens` (at most 512) to the live sequence in one batch. Returns float32 `[n, n_vocab]`, the logits behind each of them."""
        self._check_open()
        position = len(self._live)
        if self._context.decode(tokens, position, all_logits=True) != 0:
            self._forget()
            raise NativeError(f"llama.cpp could not compute {len(tokens)} tokens at position {position}: {llama.last_error()}")
        self._live += tokens
        self._logits = None
        return self._context.all_logits(len(tokens))

    # -- rows ------------------------------------------------------------------------------------------------------------

    def harvest(self, origin: str) -> Rows:
        """Rows of everything in the live sequence, with captured states."""
        self._check_open()
        n = self._length() if self._cells is not None else 0
        return Rows(
            tokens=np.array(self._live[:n], np.int32),
            position=0,
            n_exact=min(self._exact_until, n),
            data=np.empty(0, np.uint8) if self._cells is None else self._cells.read(0, n),
            layout=self.layout,
            states=self._read_states(n),
            origin=origin,
        )

    def _length(self) -> int:
        return min(self._context.length(), len(self._live))

    # -- life --------------------------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """From any thread: what runs ends within a graph node."""
        if self._opened:
            self._stop.set(True)

    def memory(self) -> Memory:
        self._check_open()
        return Memory(model_bytes=self._model.n_bytes, kv_bytes=self.info.n_ctx * self.layout.token_bytes)

    def close(self) -> None:
        """Free context and model; a second time it does nothing."""
        _close_all(self._opened)

    def _forget(self) -> None:
        self._context.clear()
        self._live, self._logits, self._exact_until = [], None, 0

    def _check_open(self) -> None:
        if not self._opened:
            raise EngineClosed("the engine was closed")

    def _check_stop(self) -> None:
        self._check_open()
        if self._stop.is_set:
            raise Cancelled("stopped")


def _check_options(options: EngineOptions) -> None:
    known = ", ".join(llama.KV_TYPES)
    for name, value in (("type_k", options.type_k), ("type_v", options.type_v)):
        if value not in llama.KV_TYPES:
            raise UsageError(f"unknown {name} {value!r}; known: {known}")
    if not 1 <= options.n_ctx <= MAX_CONTEXT:
        raise UsageError(f"a context of {options.n_ctx} tokens is not possible; give --ctx 1 to {MAX_CONTEXT}")
    if options.n_threads is not None and options.n_threads < 1:
        raise UsageError(f"{options.n_threads} threads are not possible; give --threads 1 or more")


def _load_model(path: Path, options: EngineOptions) -> llama.Model:
    use_extra = native.extra_buffers_work()
    model = llama.Model(path, n_gpu_layers=options.n_gpu_layers, use_extra_buffers=use_extra, on_progress=options.on_progress)
    if model.has_encoder:
        model.close()
        raise ModelError(f"{path} is an encoder–decoder model; relaylite runs decoder-only chat models")
    return model


def _open_cells(context: llama.Context, n_threads: int, stop: native.Stop) -> tuple[native.Cells | None, str | None]:
    """The rows of the context, and why spans cannot be relayed (None if they can)."""
    try:
        cells = native.Cells(context.address, n_threads, stop)
    except native.Unsupported as error:
        return None, str(error)
    refusal = cells.refusal or selfcheck.run(cells, context)
    return cells, refusal or None


def _layout(cells: native.Cells | None, weights: str, options: EngineOptions) -> RowLayout:
    name = fingerprint.combined(weights, options.type_k, options.type_v, native.LLAMA_CPP_PYTHON)
    return RowLayout((), (), name) if cells is None else RowLayout(cells.k_bytes, cells.v_bytes, name)


def _info(model: llama.Model, context: llama.Context, layout: RowLayout, refusal: str | None) -> ModelInfo:
    warnings = []
    if context.n_ctx > model.n_ctx_train > 0:
        warnings.append(f"the context of {context.n_ctx} tokens is longer than the {model.n_ctx_train} that the model was trained for")
    return ModelInfo(
        name=model.meta("general.name") or model.path.stem,
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
        kv_bytes_per_token=layout.token_bytes,
        quantization=model.description,
        warnings=tuple(warnings),
    )


def _physical_cores() -> int:
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        has_siblings = Path("/sys/devices/system/cpu/smt/active").read_text().strip() == "1"
    except OSError:
        has_siblings = False
    return max(1, n // 2 if has_siblings else n)


def _common(live: list[int], tokens: Tokens) -> int:
    n = min(len(live), len(tokens))
    differing = np.flatnonzero(np.asarray(live[:n], np.int32) != tokens[:n])
    return int(differing[0]) if len(differing) else n


def _close_all(opened: list[Any]) -> None:
    while opened:
        opened.pop().close()


def _ms(start: float, end: float) -> float:
    return (end - start) * 1e3
