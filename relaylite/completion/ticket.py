"""`Ticket`: a submitted request, read by one reader in its own thread or event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Protocol

from relaylite.completion.answer import CompletionEvent


class Ticket(Protocol):
    """The events of one request, in the order that `answer` gives. Read them by one of `events` and `events_async`, once.

    Reading raises what the run raised: ContextOverflow and UsageError for what cannot be, Cancelled after `cancel`, EngineClosed. An
    iterator that is closed or dropped half read cancels the request.
    """

    id: str

    def events(self) -> Iterator[CompletionEvent]: ...

    def events_async(self) -> AsyncIterator[CompletionEvent]: ...

    def cancel(self) -> None:
        """From any thread: computing stops within half a second, and what was computed is kept."""
        ...
