"""One agent's turn: plan its prompt, have it placed, write the answer, keep the rows, and measure all of it.

Knows the runner and values; who reads whom, and what a prompt says, is the chain's business.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from relaylite.chain.runner import Run, Runner
from relaylite.engine.interface import Delta, Prefill
from relaylite.errors import Cancelled, RelayliteError
from relaylite.events import Event, Notice, Phase, PrefillDone, TextDelta, Turn, TurnStarted
from relaylite.metrics import FINISH_CANCELLED, CellMap, TtftParts, TurnMetrics
from relaylite.prompt.builder import Prompt
from relaylite.reuse.plan import Kind, Plan
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import Policy
from relaylite.sampling import Sampling


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """Who answers what, and how. `render_ms` is what making the prompt took; `keeps_rows`: later turns may take the rows over."""

    agent: str
    index: int
    round: int
    prompt: Prompt
    sampling: Sampling
    policy: Policy
    render_ms: float = 0.0
    keeps_rows: bool = True


class TurnRun:
    """Drives one request. `turn` is the answer as soon as there is one, also after a cancelled run that wrote something.

    Times exclude what the reader of the events does between them.
    """

    def __init__(self, runner: Runner, run: Run, request: TurnRequest) -> None:
        self.turn: Turn | None = None
        self._runner, self._engine, self._run, self._request = runner, runner.engine, run, request
        self._metrics = TurnMetrics(prompt_tokens=len(request.prompt.tokens), context_size=runner.engine.info.n_ctx)
        self._cells: CellMap | None = None
        self._text: list[str] = []
        self._n_tokens = 0
        self._decode_ms = 0.0

    def events(self) -> Iterator[Event]:
        """TurnStarted, Phase…, PrefillDone, TextDelta…, and a Notice if the rows could not be kept."""
        request = self._request
        yield TurnStarted(request.agent, request.index, request.prompt.parts)
        yield Phase("render")
        started = time.perf_counter()
        plan = make_plan(request.prompt.tokens, self._runner.matcher, request.policy)
        render_ms = request.render_ms + _ms_since(started)
        done = yield from self._runner.prefill(self._run, plan)
        prefill = done.prefill
        self._count(done.plan, prefill)
        self._metrics.ttft_parts_ms = TtftParts(render_ms, prefill.place_ms, prefill.repair_ms, prefill.suffix_ms)
        self._metrics.ttft_ms = render_ms + done.took_ms
        try:
            yield from self._write()
        except Cancelled:
            yield from self._keep_rows()
            raise
        yield from self._keep_rows()

    def _count(self, plan: Plan, prefill: Prefill) -> None:
        metrics, cells = self._metrics, prefill.cells
        self._cells = cells
        metrics.prefix_tokens, metrics.span_tokens = plan.count(Kind.PREFIX), plan.count(Kind.SPAN)
        metrics.computed_tokens = plan.count(Kind.NEW)
        metrics.recomputed_tokens = cells.recomputed_tokens
        metrics.reuse_ratio, metrics.prompt_reuse = cells.reuse_ratio, cells.prompt_reuse
        metrics.full_ttft_estimate_ms = self._runner.store.speed.ms_per_token * metrics.prompt_tokens

    def _write(self) -> Iterator[Event]:
        deltas = self._engine.generate(self._request.sampling)
        try:
            yield from self._deltas(deltas)
        except (Cancelled, GeneratorExit, KeyboardInterrupt):
            deltas.close()
            self.turn = self._record(FINISH_CANCELLED) if self._n_tokens else None
            raise
        self.turn = self._record(self._engine.finish_reason)

    def _deltas(self, deltas: Iterator[Delta]) -> Iterator[Event]:
        """PrefillDone comes with the first token, or with the end if there is none."""
        agent = self._request.agent
        delta = self._next(deltas)
        yield Phase("write")
        assert self._cells is not None
        yield PrefillDone(agent, replace(self._metrics), self._cells)
        while delta is not None:
            if delta.text:
                yield TextDelta(agent, delta.text, self._n_tokens)
            delta = self._next(deltas)

    def _next(self, deltas: Iterator[Delta]) -> Delta | None:
        is_first = not self._n_tokens
        started = time.perf_counter()
        delta = next(deltas, None)
        took_ms = _ms_since(started)
        if is_first:
            self._metrics.ttft_parts_ms.sample = took_ms
            self._metrics.ttft_ms += took_ms
        elif delta is not None:
            self._decode_ms += took_ms
        if delta is not None:
            self._n_tokens += 1
            self._text.append(delta.text)
        return delta

    def _record(self, finish_reason: str) -> Turn:
        """The answer as it stands, with the generation figures."""
        request, metrics = self._request, self._metrics
        metrics.generated_tokens = self._n_tokens
        metrics.context_used = metrics.prompt_tokens + self._n_tokens
        metrics.decode_tokens_per_s = (self._n_tokens - 1) * 1000 / self._decode_ms if self._decode_ms else 0.0
        return Turn(
            request.agent,
            request.index,
            request.round,
            "".join(self._text),
            self._engine.answer_tokens,
            finish_reason,
            metrics,
            request.prompt.parts,
            self._cells,
        )

    def _keep_rows(self) -> Iterator[Event]:
        """Rows are worth keeping, not worth losing an answer for."""
        if not self._request.keeps_rows:
            return
        try:
            self._runner.store.put(self._engine.harvest(self._request.agent))
        except (RelayliteError, MemoryError) as error:
            yield Notice(f"the rows of {self._request.agent}'s turn could not be kept, so later turns compute them again: {error}")


def _ms_since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
