"""One agent's turn: plan its prompt, have it placed, write the answer, keep the rows, and measure all of it.

Knows the runner and values. Who reads whom, and what a prompt says, the chain decides.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace

from relaylite.chain import notices
from relaylite.chain.runner import Prefilled, Run, Runner
from relaylite.engine.interface import Delta, WriterLike
from relaylite.errors import Cancelled, RelayliteError
from relaylite.events import Event, Notice, Phase, PrefillDone, TextDelta, Turn, TurnFinished, TurnStarted
from relaylite.metrics import Stopwatch, TtftParts, TurnMetrics
from relaylite.prompt.builder import Prompt
from relaylite.reuse.plan import Kind
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import Policy
from relaylite.sampling import Sampling


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """Who answers what, and how. `place` is the agent's in the chain, `index` that of the answer in the round.

    `begun`: an answer that goes on; its tokens are the last ones of the prompt. `render_ms` is what making the prompt took.
    """

    agent: str
    place: int
    index: int
    round: int
    prompt: Prompt
    sampling: Sampling
    policy: Policy
    begun: Turn | None = None
    render_ms: float = 0.0


class TurnRun:
    """Drives one request. Times exclude what the reader of the events does between them.

    The answer is given to `keep`, also if it was stopped half way. If that is None, neither the answer nor its rows are kept.
    """

    def __init__(self, runner: Runner, run: Run, request: TurnRequest, keep: Callable[[Turn], None] | None = None) -> None:
        self._runner, self._run, self._request, self._keep = runner, run, request, keep
        self._metrics = TurnMetrics(prompt_tokens=len(request.prompt.tokens), context_size=runner.info.n_ctx)
        self._text: list[str] = []  # one for each token
        self._decode_ms = 0.0

    def events(self) -> Generator[Event, None, None]:
        """The events of a turn, in the order that `relaylite.events` gives.

        Raises Cancelled after the last one. Closed half read, it stops the answer and keeps what was written.
        """
        request, agent = self._request, self._request.agent
        yield TurnStarted(agent, request.place, request.prompt.parts, request.index, request.begun.text if request.begun else "")
        yield Phase("render")
        watch = Stopwatch()
        plan = make_plan(request.prompt.tokens, self._runner.matcher, request.policy)
        render_ms = request.render_ms + watch.ms()
        prefilled = yield from self._runner.prefill(self._run, plan)
        self._count(prefilled, render_ms)
        stopped: BaseException | None = None
        with closing(self._runner.engine.generate(request.sampling)) as writer:
            try:
                delta = self._step(writer)
                yield Phase("write")
                yield PrefillDone(agent, replace(self._metrics), prefilled.prefill.cells)
                while delta is not None:
                    if delta.text:
                        yield TextDelta(agent, delta.text, len(self._text))
                    delta = self._step(writer)
            except (Cancelled, GeneratorExit, KeyboardInterrupt) as error:
                stopped = error
        turn = self._turn(writer, prefilled) if self._text or stopped is None else None
        if turn is not None and self._keep is not None:
            self._keep(turn)
        if stopped is not None and not isinstance(stopped, Cancelled):
            raise stopped
        if trouble := self._keep_rows():
            yield Notice(trouble)
        if turn is not None:
            yield TurnFinished(turn)
        if stopped is not None:
            raise stopped

    def _count(self, prefilled: Prefilled, render_ms: float) -> None:
        metrics, plan, prefill = self._metrics, prefilled.plan, prefilled.prefill
        metrics.prefix_tokens, metrics.span_tokens = plan.count(Kind.PREFIX), plan.count(Kind.SPAN)
        metrics.computed_tokens = plan.count(Kind.NEW)
        metrics.recomputed_tokens = prefill.cells.recomputed_tokens
        metrics.reuse_ratio, metrics.prompt_reuse = prefill.cells.reuse_ratio, prefill.cells.prompt_reuse
        metrics.full_ttft_estimate_ms = self._runner.speed.ms_per_token * metrics.prompt_tokens
        metrics.ttft_parts_ms = TtftParts(render_ms, prefill.place_ms, prefill.repair_ms, prefill.suffix_ms)
        metrics.ttft_ms = render_ms + prefilled.took_ms

    def _step(self, writer: WriterLike) -> Delta | None:
        """The next token, timed: the first one belongs to the time to first token. None when the answer has ended."""
        watch = Stopwatch()
        delta = next(writer, None)
        took_ms = watch.ms()
        if not self._text:
            self._metrics.ttft_parts_ms.sample = took_ms
            self._metrics.ttft_ms += took_ms
        elif delta is not None:
            self._decode_ms += took_ms
        if delta is not None:
            self._text.append(delta.text)
        return delta

    def _turn(self, writer: WriterLike, prefilled: Prefilled) -> Turn:
        """The answer as it stands, with the generation figures."""
        request, metrics, n_tokens = self._request, self._metrics, len(self._text)
        begun_text, begun_tokens = (request.begun.text, request.begun.tokens) if request.begun else ("", ())
        metrics.generated_tokens = n_tokens
        metrics.context_used = metrics.prompt_tokens + n_tokens
        metrics.decode_tokens_per_s = (n_tokens - 1) * 1000 / self._decode_ms if self._decode_ms else 0.0
        return Turn(
            request.agent,
            request.index,
            request.round,
            begun_text + "".join(self._text),
            begun_tokens + writer.tokens,
            writer.finish_reason,
            metrics,
            request.prompt.parts,
            prefilled.prefill.cells,
        )

    def _keep_rows(self) -> str:
        """Keep the rows of prompt and answer for later turns. Why that failed, if it did: rows are not worth losing an answer for."""
        if self._keep is None:
            return ""
        try:
            self._runner.store.put(self._runner.engine.harvest(self._request.agent))
        except (RelayliteError, MemoryError) as error:
            return notices.rows_not_kept(self._request.agent, error)
        return ""
