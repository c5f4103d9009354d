"""`Gaps`: which prompt positions no overlap has taken yet. Overlaps that compete for them are taken longest first."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from relaylite.reuse.overlaps import Overlap


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

    def fill(self, overlaps: Iterable[Overlap], min_length: int) -> list[Overlap]:
        """Take disjoint parts of the overlaps, each of at least `min_length` tokens; returns them in no order.

        The longest goes first, then what is still free of the others. Ties: the higher rank, then the earlier place.
        """
        heap: list[tuple[int, tuple[int, ...], int, int, int, Overlap]] = []
        taken: list[Overlap] = []

        def offer(overlap: Overlap) -> None:
            for start, end in self.within(overlap.start, overlap.end):
                if end - start >= min_length:
                    part = overlap.within(start, end)
                    heapq.heappush(heap, (-part.n, tuple(-r for r in part.rank), part.start, part.offset, part.key, part))

        for overlap in overlaps:
            offer(overlap)
        while heap:
            best = heapq.heappop(heap)[-1]
            if self.within(best.start, best.end) == [(best.start, best.end)]:
                self.take(best.start, best.end)
                taken.append(best)
            else:
                offer(best)
        return taken
