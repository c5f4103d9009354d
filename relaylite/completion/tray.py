"""`Tray`: events on their way from the thread that computes to the one reader of a request, in a thread or an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress

from relaylite.completion.answer import CompletionEvent


class Tray:
    """Events in order; then the end, or an error. `on_dropped` is called if the reader leaves before that."""

    def __init__(self, on_dropped: Callable[[], None]) -> None:
        self._on_dropped = on_dropped
        self._events: deque[CompletionEvent] = deque()
        self._error: BaseException | None = None
        self._is_ended = False
        self._changed = threading.Condition()
        self._wake: Callable[[], None] = lambda: None

    @property
    def is_ended(self) -> bool:
        return self._is_ended

    def put(self, event: CompletionEvent) -> None:
        with self._changed:
            self._events.append(event)
            self._tell()

    def end(self, error: BaseException | None = None) -> None:
        """Nothing comes after this. A second time it does nothing."""
        with self._changed:
            if not self._is_ended:
                self._is_ended, self._error = True, error
                self._tell()

    def events(self) -> Iterator[CompletionEvent]:
        """Waits for each. Raises the error."""
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._events or self._is_ended)
                    event = self._next()
                if event is None:
                    return
                yield event
        finally:
            if not self._is_ended:
                self._on_dropped()

    async def events_async(self) -> AsyncIterator[CompletionEvent]:
        """The same in an event loop."""
        loop, ready = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has ended, and its reader with it
                loop.call_soon_threadsafe(ready.set)

        with self._changed:
            self._wake = wake
        try:
            while True:
                with self._changed:
                    ready.clear()
                    is_waiting = not self._events and not self._is_ended
                    event = None if is_waiting else self._next()
                if is_waiting:
                    await ready.wait()
                elif event is None:
                    return
                else:
                    yield event
        finally:
            if not self._is_ended:
                self._on_dropped()

    def _next(self) -> CompletionEvent | None:
        """None at the end; raises the error there."""
        if self._events:
            return self._events.popleft()
        if self._error is not None:
            raise self._error
        return None

    def _tell(self) -> None:
        self._changed.notify_all()
        self._wake()
