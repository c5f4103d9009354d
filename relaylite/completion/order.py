"""Which of the waiting requests runs next: what is in place already goes first, and nobody waits for ever. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

MAX_OVERTAKEN = 8  # requests that came later and ran earlier
MAX_LOOKED_AT = 32


class Waiting(Protocol):
    """A request in the queue. `n_overtaken`: how many that came later ran earlier."""

    n_overtaken: int


Entry = TypeVar("Entry", bound=Waiting)


def next_of(waiting: Sequence[Entry], n_to_compute: Callable[[Entry], int]) -> Entry:
    """Of `waiting`, the oldest first: the one with the fewest tokens to compute, the oldest of several; but the first that was overtaken
    `MAX_OVERTAKEN` times goes before all others.

    Short prompts and those that share what was computed last run first, which keeps the mean wait short and rows in use while they are
    held. Counts who was overtaken.
    """
    looked_at = waiting[:MAX_LOOKED_AT]
    overdue = [entry for entry in looked_at if entry.n_overtaken >= MAX_OVERTAKEN]
    first = overdue or looked_at[: len(looked_at) == 1]  # no plan is made for one that waits alone
    chosen = first[0] if first else min(looked_at, key=n_to_compute)
    for entry in waiting[: waiting.index(chosen)]:
        entry.n_overtaken += 1
    return chosen
