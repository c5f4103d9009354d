"""`CompletionRun`: one request on one engine, step by step, so that several requests can take turns.

A step computes the prompt or one token. Who steps when, `completions` decides.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace

from relaylite.completion.answer import CompletionEvent, Finished, Piece, Prefilled, Reuse, TokenLogprob
from relaylite.completion.reasons import reuse_of
from relaylite.completion.request import CompletionRequest
from relaylite.completion.tenant import KnownPrompt, Tenant
from relaylite.engine.interface import EngineLike, WriterLike
from relaylite.errors import Cancelled, RelayliteError
from relaylite.events import PhaseName
from relaylite.metrics import Stopwatch
from relaylite.reuse.plan import Plan
from relaylite.reuse.policies import PREFIX
from relaylite.reuse.rows import Tokens
from relaylite.runs.meter import TurnMeter
from relaylite.runs.prefilling import carry_out

logger = logging.getLogger(__name__)


class CompletionRun:
    """Yields the events that `answer` names, one a step. Closed, cancelled or done, it has kept the rows of what was computed.

    `asked`: runs since the request was submitted.
    """

    def __init__(self, request: CompletionRequest, prompt: KnownPrompt, engine: EngineLike, tenant: Tenant, asked: Stopwatch) -> None:
        self._request, self._prompt, self._engine, self._tenant, self._asked = request, prompt, engine, tenant, asked
        self._queued_ms = asked.ms()
        self._is_cancelled = self._has_begun = False
        self.computed: Tokens = prompt.tokens[:0]  # what the engine holds after the last step

    def cancel(self) -> None:
        """From any thread: the step that computes, or else the next one, raises Cancelled."""
        self._is_cancelled = True
        self._engine.cancel()

    def steps(self) -> Generator[CompletionEvent, None, None]:
        """Raises what computing raises, and Cancelled after `cancel`."""
        try:
            for index in range(self._request.n):
                yield from self._answer(index)
                if index + 1 < self._request.n:
                    self.keep()
        finally:
            self.keep()

    def _answer(self, index: int) -> Iterator[CompletionEvent]:
        request, meter = self._request, TurnMeter(len(self._prompt.tokens), self._engine.info.n_ctx)
        watch = Stopwatch()
        done = carry_out(self._plan(index), self._engine, self._tenant.rows, self._on_phase)
        meter.placed(done, max(watch.ms() - done.took_ms, 0.0), self._tenant.rows.speed.ms_per_token)
        self.computed = self._prompt.tokens
        reuse = reuse_of(done.plan, self._prompt, done.prefill.cells, self._engine.info, request.policy)
        if index == 0:
            yield Prefilled(tuple(self._prompt.tokens.tolist()), self._queued_ms, watch.ms(), reuse)
        sampling = replace(request.sampling, seed=request.sampling.seed + index)
        with closing(self._engine.generate(sampling, request.n_logprobs)) as writer:
            yield from self._pieces(index, writer, meter, reuse)

    def _pieces(self, index: int, writer: WriterLike, meter: TurnMeter, reuse: Reuse) -> Iterator[CompletionEvent]:
        logprobs: list[TokenLogprob] = []
        since_first: Stopwatch | None = None
        ttft_ms = 0.0
        try:
            self._raise_if_cancelled()
            while (delta := meter.step(writer)) is not None:
                if since_first is None:
                    ttft_ms, since_first = self._asked.ms(), Stopwatch()
                if delta.logprob is not None:
                    logprobs.append(TokenLogprob(delta.token, delta.logprob, delta.top))
                yield Piece(index, delta.text, delta.token, logprobs[-1] if logprobs else None)
                self._raise_if_cancelled()
        finally:
            self._tenant.remember(writer.tokens, self._request.id)
        metrics = meter.ended()
        metrics.ttft_ms = ttft_ms or self._asked.ms()
        predicted_ms = 0.0 if since_first is None else since_first.ms()
        text = "".join(meter.text)
        yield Finished(index, text, writer.tokens, writer.finish_reason, metrics, reuse, predicted_ms, writer.stop, tuple(logprobs))

    def _plan(self, index: int) -> Plan:
        """The rows of the first answer's prompt serve the others, whatever the policy."""
        policy = self._request.policy
        return self._tenant.plan(self._prompt, PREFIX if index and policy.is_exact else policy, self._engine)

    def _on_phase(self, _: PhaseName) -> None:
        self._has_begun = True  # from here on, the engine holds nothing of other requests
        self._raise_if_cancelled()

    def _raise_if_cancelled(self) -> None:
        if self._is_cancelled:
            raise Cancelled("stopped; what was computed until then is kept")

    def keep(self) -> None:
        """Put what the engine holds of this request into the store. An answer is not worth losing for its rows."""
        if not self._has_begun:
            return
        try:
            rows = self._engine.harvest(self._request.id)
            self._tenant.keep(rows, self._request, len(self._prompt.tokens))
            self.computed = rows.tokens
        except (RelayliteError, MemoryError) as error:
            logger.warning("the rows of request %s are not kept: %s", self._request.id, error)
