"""Which of the runs that compete for the same prompt tokens are taken: longest first, what is left of the others after."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """Prompt tokens `[start, start + n)` found at `offset` of text `key`. Among equally long ones the higher `rank` wins."""

    start: int
    n: int
    key: int
    offset: int
    rank: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        return self.start + self.n

    def within(self, start: int, end: int) -> Candidate:
        """The part at prompt positions `[start, end)`."""
        first, last = max(start, self.start), min(end, self.end)
        return Candidate(first, last - first, self.key, self.offset + first - self.start, self.rank)


def choose(candidates: Iterable[Candidate], min_length: int, gaps: list[tuple[int, int]]) -> list[Candidate]:
    """Disjoint parts of the candidates within the prompt ranges `gaps`, each of at least `min_length` tokens, in no order.

    Ties: the higher rank, then the earlier place.
    """
    heap: list[tuple[int, tuple[int, ...], int, int, Candidate]] = []

    def offer(candidate: Candidate, free: Iterable[tuple[int, int]]) -> None:
        for start, end in free:
            part = candidate.within(start, end)
            if part.n >= min_length:
                heapq.heappush(heap, (-part.n, tuple(-r for r in part.rank), part.start, part.offset, part))

    gaps, chosen = list(gaps), []
    for candidate in candidates:
        offer(candidate, gaps)
    while heap:
        best = heapq.heappop(heap)[-1]
        if not any(start <= best.start and best.end <= end for start, end in gaps):
            offer(best, gaps)
            continue
        chosen.append(best)
        gaps = [piece for gap in gaps for piece in _without(gap, best)]
    return chosen


def remaining(start: int, end: int, taken: Iterable[Candidate]) -> list[tuple[int, int]]:
    """The ranges of `[start, end)` that `taken` leaves."""
    gaps = [(start, end)]
    for candidate in taken:
        gaps = [piece for gap in gaps for piece in _without(gap, candidate)]
    return gaps


def _without(gap: tuple[int, int], taken: Candidate) -> list[tuple[int, int]]:
    start, end = gap
    pieces = [(start, min(end, taken.start)), (max(start, taken.end), end)]
    return [(first, last) for first, last in pieces if first < last]
