"""One agent's turn: plan its prompt, have it placed, write the answer, keep the rows, and measure all of it.

Knows the runner and values. Who reads whom, and what a prompt says, the chain decides.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace

from relaylite.chain import notices
from relaylite.chain.loops import Loop
from relaylite.engine.interface import WriterLike
from relaylite.errors import Cancelled, RelayliteError
from relaylite.events import Event, Notice, Phase, PrefillDone, TextDelta, Turn, TurnFinished, TurnStarted
from relaylite.metrics import FINISH_STOP, Stopwatch
from relaylite.prompt.builder import Prompt
from relaylite.reuse.planner import Matcher, make_plan
from relaylite.reuse.policies import Policy
from relaylite.runs.meter import TurnMeter
from relaylite.runs.prefilling import Prefilled
from relaylite.runs.runner import Run, Runner
from relaylite.sampling import Sampling


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """Who answers what, and how. `place` is the agent's in the chain, `index` that of the answer in the round.

    `begun`: an answer that goes on; its tokens are the last ones of the prompt. `render_ms` is what making the prompt took. `matcher`:
    where rows are looked for, by default in all that the runner has.
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
    matcher: Matcher | None = None


class TurnRun:
    """Drives one request. Times exclude what the reader of the events does between them.

    The answer is given to `keep`, also if it was stopped half way. If that is None, neither the answer nor its rows are kept.
    """

    def __init__(self, runner: Runner, run: Run, request: TurnRequest, keep: Callable[[Turn], None] | None = None) -> None:
        self._runner, self._run, self._request, self._keep = runner, run, request, keep
        self._meter = TurnMeter(len(request.prompt.tokens), runner.info.n_ctx)
        self._loop = Loop() if request.sampling.ends_loops else None
        self._n_looping = 0  # tokens of the sequence that the answer repeated when it was ended

    def events(self) -> Generator[Event, None, None]:
        """The events of a turn, in the order that `relaylite.events` gives.

        Raises Cancelled after the last one. Closed half read, it stops the answer and keeps what was written.
        """
        request, agent = self._request, self._request.agent
        yield TurnStarted(agent, request.place, request.prompt.parts, request.index, request.begun.text if request.begun else "")
        yield Phase("render")
        watch = Stopwatch()
        plan = make_plan(request.prompt.tokens, request.matcher or self._runner.matcher, request.policy, request.prompt.quotes)
        render_ms = request.render_ms + watch.ms()
        prefilled = yield from self._runner.prefill(self._run, plan)
        self._meter.placed(prefilled, render_ms, self._runner.speed)
        stopped: BaseException | None = None
        with closing(self._runner.engine.generate(request.sampling)) as writer:
            try:
                delta = self._meter.step(writer)
                yield Phase("write")
                yield PrefillDone(agent, replace(self._meter.metrics), prefilled.prefill.cells)
                while delta is not None:
                    if delta.text:
                        yield TextDelta(agent, delta.text, len(self._meter.text))
                    if self._loop is not None and (n := self._loop.closes_with(delta.token)):
                        self._n_looping = n
                        break
                    delta = self._meter.step(writer)
            except (Cancelled, GeneratorExit, KeyboardInterrupt) as error:
                stopped = error
        turn = self._turn(writer, prefilled) if self._meter.text or stopped is None else None
        if turn is not None and self._keep is not None:
            self._keep(turn)
        if stopped is not None and not isinstance(stopped, Cancelled):
            raise stopped
        if self._n_looping:
            yield Notice(notices.answer_looped(agent, self._n_looping))
        if trouble := self._keep_rows():
            yield Notice(trouble)
        if turn is not None:
            yield TurnFinished(turn)
        if stopped is not None:
            raise stopped

    def _turn(self, writer: WriterLike, prefilled: Prefilled) -> Turn:
        """The answer as it stands, with the generation figures."""
        request = self._request
        begun_text, begun_tokens = (request.begun.text, request.begun.tokens) if request.begun else ("", ())
        return Turn(
            request.agent,
            request.index,
            request.round,
            begun_text + "".join(self._meter.text),
            begun_tokens + writer.tokens,
            FINISH_STOP if self._n_looping else writer.finish_reason,
            self._meter.ended(),
            request.prompt.parts,
            prefilled.prefill.cells,
        )

    def _keep_rows(self) -> str:
        """Keep the rows of prompt and answer for later turns. Why that failed, if it did: rows are not worth losing an answer for."""
        if self._keep is None:
            return ""
        try:
            self._runner.store.put(self._runner.engine.harvest(self._request.agent), answer=len(self._request.prompt))
        except (RelayliteError, MemoryError) as error:
            return notices.rows_not_kept(self._request.agent, error)
        return ""
