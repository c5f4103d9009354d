"""`Entry`: a submitted request, from the queue to its end, and what can be told of it meanwhile. Fulfils `Ticket`."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace

from relaylite.completion.answer import CompletionEvent, Finished, Piece, Prefilled
from relaylite.completion.overview import RequestState, State
from relaylite.completion.request import CompletionRequest
from relaylite.completion.run import CompletionRun
from relaylite.completion.tenant import KnownPrompt, Tenant
from relaylite.completion.tray import Tray
from relaylite.metrics import Stopwatch

SHOWN_TEXT = 400  # characters at the end of what is written


class Entry:
    """`on_cancel` takes it out of the queue, if it waits there."""

    def __init__(self, request: CompletionRequest, tenant: Tenant, prompt: KnownPrompt, on_cancel: Callable[[Entry], None]) -> None:
        self.request, self.tenant, self.prompt = request, tenant, prompt
        self.id = request.id
        self.n_overtaken = 0
        self.asked = Stopwatch()
        self.is_cancelled = False
        self.state = RequestState(request.id, "queued", time.time(), prompt_tokens=len(prompt.tokens))
        self._on_cancel = on_cancel
        self._run: CompletionRun | None = None
        self._lock = threading.Lock()  # a run that is over must not be cancelled: another request has its engine
        self._tray = Tray(self.cancel)

    def events(self) -> Iterator[CompletionEvent]:
        return self._tray.events()

    def events_async(self) -> AsyncIterator[CompletionEvent]:
        return self._tray.events_async()

    def cancel(self) -> None:
        self.is_cancelled = True
        with self._lock:
            if self._run is not None:
                self._run.cancel()
        self._on_cancel(self)

    def begin(self, run: CompletionRun) -> None:
        """From now on `run` computes."""
        self.state = replace(self.state, state="prefill", prompt_tokens=len(self.prompt.tokens), queued_ms=self.asked.ms())
        with self._lock:
            self._run = run

    def leave(self) -> None:
        """The run is over."""
        with self._lock:
            self._run = None

    def give(self, event: CompletionEvent) -> None:
        self._note(event)
        self._tray.put(event)

    def end(self, state: State, error: BaseException | None = None) -> None:
        self.state = replace(self.state, state=state)
        self._tray.end(error)

    def _note(self, event: CompletionEvent) -> None:
        state = self.state
        if isinstance(event, Prefilled):
            reuse = event.reuse
            self.state = replace(
                state,
                state="writing",
                prompt_tokens=len(event.prompt),
                prefix_tokens=reuse.prefix_tokens,
                relayed_tokens=reuse.relayed_tokens,
                queued_ms=event.queued_ms,
            )
        elif isinstance(event, Piece):
            text = (state.text + event.text)[-SHOWN_TEXT:]
            self.state = replace(state, generated_tokens=state.generated_tokens + 1, text=text, ttft_ms=state.ttft_ms or self.asked.ms())
        elif isinstance(event, Finished):
            self.state = replace(state, ttft_ms=event.metrics.ttft_ms)
