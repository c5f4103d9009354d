"""Which of the runs that compete for the same prompt tokens are taken: longest first, what is left of the others after."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
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


class Gaps:
    """Prompt positions not taken yet, as sorted disjoint ranges."""

    def __init__(self, start: int, end: int) -> None:
        self._starts, self._ends = [start], [end]

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """The free ranges in `[start, end)`."""
        first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
        return [(max(start, s), min(end, e)) for s, e in zip(self._starts[first:last], self._ends[first:last], strict=True)]

    def take(self, start: int, end: int) -> None:
        """Take `[start, end)`, which lies within one free range."""
        i = bisect_right(self._starts, start) - 1
        rest = [(s, e) for s, e in ((self._starts[i], start), (end, self._ends[i])) if s < e]
        self._starts[i : i + 1] = [s for s, _ in rest]
        self._ends[i : i + 1] = [e for _, e in rest]


def choose(candidates: Iterable[Candidate], min_length: int, gaps: Gaps) -> list[Candidate]:
    """Disjoint parts of the candidates within `gaps`, each of at least `min_length` tokens, in no order; takes them from `gaps`.

    Ties: the higher rank, then the earlier place.
    """
    heap: list[tuple[int, tuple[int, ...], int, int, int, Candidate]] = []
    chosen: list[Candidate] = []

    def offer(candidate: Candidate) -> None:
        for start, end in gaps.within(candidate.start, candidate.end):
            if end - start >= min_length:
                part = candidate.within(start, end)
                heapq.heappush(heap, (-part.n, tuple(-r for r in part.rank), part.start, part.offset, part.key, part))

    for candidate in candidates:
        offer(candidate)
    while heap:
        best = heapq.heappop(heap)[-1]
        if gaps.within(best.start, best.end) == [(best.start, best.end)]:
            gaps.take(best.start, best.end)
            chosen.append(best)
        else:
            offer(best)
    return chosen
