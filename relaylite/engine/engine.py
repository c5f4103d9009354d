"""`Engine`: one model with one live sequence. Places a plan, decodes, samples, and gives the rows back.

What is reused is decided before (planner), what is repaired is decided in `sweep`; this module carries both out.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from relaylite.engine import footprint, native
from relaylite.engine.interface import Memory, Prefill
from relaylite.engine.kept_states import KeptStates
from relaylite.engine.opening import Parts, open_beside, open_parts
from relaylite.engine.options import EngineOptions
from relaylite.engine.sweep import ForcedSelection, Sweep
from relaylite.engine.writer import Writer
from relaylite.errors import Cancelled, ContextOverflow, ModelError, UsageError
from relaylite.events import PhaseName
from relaylite.metrics import CellMap, Stopwatch
from relaylite.reuse.plan import Kind, Plan
from relaylite.reuse.profile import Profile
from relaylite.reuse.rows import Rows
from relaylite.sampling import Sampling

OnPhase = Callable[[PhaseName], None]


class Engine:
    """Fulfils `interface.EngineLike` with llama.cpp. `EngineLike` says what other threads may call."""

    @classmethod
    def open(cls, path: Path, options: EngineOptions | None = None) -> Engine:
        """Load the GGUF at `path`. Raises ModelError or UsageError in one line, or what `on_progress` raised; nothing is held then."""
        return cls(open_parts(path, options or EngineOptions()))

    def __init__(self, parts: Parts) -> None:
        self._parts, self._held, self._computing = parts, parts.held, parts.computing
        self._close = weakref.finalize(self, parts.held.close)
        self._close.atexit = False  # the process's memory goes with it
        self._context, self._stop = parts.computing.context, parts.computing.stop
        self._sequence, self._kept_states = parts.sequence, parts.kept_states
        self.tokenizer = parts.computing.model.vocab
        self.template, self.profile, self.layout, self.info = parts.template, parts.profile, parts.layout, parts.info
        self._forced: ForcedSelection | None = None
        self._n_batch: int | None = None
        self._logits: native.F32 | None = None  # of the prompt's last token, where llama.cpp did not compute it

    def beside(self) -> Engine:
        """Another engine on the same weights; see `EngineLike.beside`."""
        self._held.check_open()
        return Engine(open_beside(self._parts))

    @property
    def kept_states(self) -> KeptStates | None:
        """States that prompts may go on from, None where rows can be placed; see `EngineLike.kept_states`."""
        return self._kept_states

    def prefill(self, plan: Plan, on_phase: OnPhase) -> Prefill:
        """Replace the live sequence by the plan's; see `EngineLike.prefill`."""
        self._held.check_open()
        self._check_plan(plan)
        self._stop.set(False)
        phases: list[PhaseName] = []

        def enter(phase: PhaseName) -> None:
            on_phase(phase)
            phases.append(phase)

        try:
            return self._sweep(plan, enter) if plan.count(Kind.SPAN) else self._compute(plan, enter)
        except BaseException as error:
            is_whole = isinstance(error, Cancelled) and "suffix" in phases and not plan.count(Kind.SPAN)
            if is_whole and self._kept_states is None:
                self._sequence.cut(len(self._sequence.tokens))  # what was computed for this plan, batch by batch
            else:
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
        clock = Stopwatch()
        on_phase("place")
        n_placed = self._place_prefix(plan) if self._kept_states is None else self._kept_states.take_up(plan)
        place_ms = clock.lap_ms()
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
        return Prefill(place_ms, 0.0, clock.lap_ms(), CellMap(cells, np.full(len(plan.tokens), np.nan, np.float32)))

    def _place_prefix(self, plan: Plan) -> int:
        with self._sequence.place(plan, with_gaps=False) as late:
            late.write()
        return len(self._sequence.tokens)

    def _sweep(self, plan: Plan, on_phase: OnPhase) -> Prefill:
        """All rows in place with gaps for new tokens, then one sweep over the layers that fills and repairs them."""
        clock = Stopwatch()
        on_phase("place")
        with self._sequence.place(plan, with_gaps=True) as late:
            place_ms = clock.lap_ms()
            on_phase("repair")
            assert self._sequence.cache is not None
            states = self._sequence.read_states(len(plan.tokens))
            sweep = Sweep(self._sequence.cache, plan, self._forced or self.profile.parameters(plan.policy), states, late)
            sweep.select()
            repair_ms = clock.lap_ms()
            on_phase("suffix")
            self._logits = sweep.fill()
        for name, (positions, vectors) in sweep.new_states.items():
            self._sequence.write_states(name, positions, vectors)
        return Prefill(place_ms, repair_ms, clock.lap_ms(), sweep.cell_map())

    def generate(self, sampling: Sampling, n_logprobs: int | None = None) -> Writer:
        """Write an answer behind the prompt; see `EngineLike.generate`."""
        self._held.check_open()
        writer = Writer(self._sequence, self._context, self.tokenizer, sampling, self._logits, n_logprobs=n_logprobs)
        self._logits = None
        return writer

    def harvest(self, origin: str, *, heeds_cancel: bool = False) -> Rows:
        """Rows of everything in the live sequence, with captured states; see `EngineLike.harvest`."""
        self._held.check_open()
        if self._kept_states is not None:
            self._kept_states.keep()
        return self._sequence.rows(self.layout, origin, heeds_stop=heeds_cancel)

    def cancel(self) -> None:
        """From any thread: what runs ends within a graph node."""
        if self._held.things:
            self._stop.set(True)

    def memory(self) -> Memory:
        self._held.check_open()
        taken = native.memory_of(self._context.address)
        captured = self._sequence.state_bytes_per_token * self.info.n_ctx
        kept = 0 if self._kept_states is None else self._kept_states.n_bytes
        return Memory(self._computing.model.n_bytes, taken.cache, taken.compute, capture_bytes=captured, store_bytes=kept)

    def forecast(self, n_ctx: int) -> Memory:
        """What this model would take with another context, before it is made."""
        self._held.check_open()
        model, options = self._computing.model, self._computing.context_options
        wanted = footprint.forecast(model, replace(options, n_ctx=n_ctx), self._computing.n_offloaded)
        return replace(wanted, model_bytes=model.n_bytes, capture_bytes=self._sequence.state_bytes_per_token * n_ctx)

    def close(self) -> None:
        """Free context and model; a second time, or in a forked process, it does nothing. An engine that is dropped is closed too."""
        self._close()

    # -- for measuring alone: bench, profile and tests; no chain uses these -----------------------------------------------------

    def configure(
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
        self._held.check_open()
        profile.check_fits(self.info.n_layer)
        self.profile, self._forced, self._n_batch = profile, forced, n_batch
        wanted = profile.captures if captures is None else captures
        self._sequence.watch({} if self.info.relay_refusal else wanted)

    def logits(self) -> native.F32:
        """float32 `[n_vocab]` behind the prompt, before anything was generated."""
        return self._context.logits() if self._logits is None else self._logits

    def force(self, tokens: list[int]) -> native.F32:
        """Append `tokens` (at most 512) in one batch. Returns float32 `[n, n_vocab]`, the logits behind each of them."""
        self._held.check_open()
        self._logits = None
        try:
            self._sequence.decode(tokens, all_logits=True)
        except BaseException:
            self._sequence.forget()
            raise
        return self._context.all_logits(len(tokens))
