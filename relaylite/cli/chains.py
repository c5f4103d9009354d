"""What commands that run a chain share: its events with Ctrl-C and SIGTERM heeded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from relaylite.cli.interrupts import Work
from relaylite.metrics import FINISH_CANCELLED

if TYPE_CHECKING:
    from relaylite.chain.chain import Chain
    from relaylite.events import Event


def events_of(chain: Chain, start: Callable[[], Iterable[Event]]) -> Work[Event]:
    """The events of the run that `start` begins. Ctrl-C and SIGTERM cancel it."""

    def work(post: Callable[[Event], None]) -> None:
        for event in start():
            post(event)

    return Work(work, chain.cancel, lambda: _kept_of(chain))


def _kept_of(chain: Chain) -> str:
    """What there is of the last message's answers when a run is stopped."""
    turns = chain.rounds[-1].turns if chain.rounds else []
    names = [turn.agent + (" (cut short)" if turn.finish_reason == FINISH_CANCELLED else "") for turn in turns]
    return f"stopped; kept: {', '.join(names)}" if names else "stopped before anything was written"
