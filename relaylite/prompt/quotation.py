"""Where a text quotes known answers: the longest runs first, cut to whole tokens and characters. It remembers nothing."""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, count, pairwise

import numpy as np
import numpy.typing as npt

from relaylite.prompt.unescaped import View
from relaylite.reuse.gaps import Gaps
from relaylite.reuse.overlaps import OverlapIndex, window_for

LEAST_BYTES = 24  # in a row, so that an answer counts as quoted
LEAST_INNER_BYTES = 8  # in a row, between other runs of the same quotation
_INNER_LIMIT = 4096  # bytes between two runs that are looked at closely
_END_TOKENS = 6  # at either end of a run are looked at for a good place to end it


@dataclass(frozen=True, slots=True)
class Known:
    """An answer: its ids, the request it is from, and its bytes. `borders`: where in them its tokens begin, and the end.

    `silent`: the tokens that spell nothing, ascending.
    """

    tokens: tuple[int, ...]
    source: str
    text: bytes
    borders: array[int]
    silent: tuple[int, ...]

    @classmethod
    def of(cls, tokens: Sequence[int], pieces: Sequence[bytes], source: str) -> Known:
        borders = array("i", accumulate(map(len, pieces), initial=0))
        return cls(tuple(tokens), source, b"".join(pieces), borders, tuple(i for i, piece in enumerate(pieces) if not piece))


@dataclass(frozen=True, slots=True)
class Run:
    """Bytes `[start, end)` of the text are those of answer `key` from `offset` on; in `view` they begin at `at`."""

    start: int
    end: int
    key: int
    offset: int
    view: View
    at: int

    @property
    def shift(self) -> int:
        return self.offset - self.start

    def within(self, start: int, end: int) -> Run:
        first = max(start, self.start)
        return replace(self, start=first, end=min(end, self.end), offset=self.offset + first - self.start, at=self.at + first - self.start)


def longest_first(found: Iterable[Sequence[Run]], n_bytes: int) -> list[Run]:
    """Of the finds, each of runs of one answer, disjoint ones in a text of `n_bytes`, ascending: the longest, then the newest answer."""
    gaps, taken, tie = Gaps(0, n_bytes), list[Run](), count()
    heap: list[tuple[int, int, int, int, Sequence[Run]]] = []

    def offer(runs: Sequence[Run]) -> None:
        length = sum(run.end - run.start for run in runs)
        if length >= LEAST_BYTES:
            heapq.heappush(heap, (-length, -runs[0].key, runs[0].start, next(tie), runs))

    for runs in found:
        offer(runs)
    while heap:
        runs = heapq.heappop(heap)[-1]
        free = [run.within(start, end) for run in runs for start, end in gaps.within(run.start, run.end)]
        if free == list(runs):
            for run in runs:
                gaps.take(run.start, run.end)
            taken += runs
        elif free:
            offer(free)
    return sorted(taken, key=lambda run: run.start)


def quotations(runs: Sequence[Run]) -> list[list[Run]]:
    """Ascending `runs` by the place that they quote: those of one answer belong together while they follow one another in it too."""
    found: list[list[Run]] = []
    open_of: dict[int, list[Run]] = {}
    for run in runs:
        last = open_of.get(run.key)
        if last is None or not _follows(run, last[-1]):
            open_of[run.key] = last = []
            found.append(last)
        last.append(run)
    return found


def filled(runs: Sequence[Run], answers: Mapping[int, Known], text: bytes) -> list[Run]:
    """Ascending `runs`, and between two that follow one another in their answer too the shorter ones."""
    inner = [
        each
        for before, after in pairwise(runs)
        if before.key == after.key and _follows(after, before)
        for each in _between(before, after, answers[before.key], text)
    ]
    return sorted([*runs, *inner], key=lambda run: run.start)


def _between(before: Run, after: Run, known: Known, text: bytes) -> list[Run]:
    start, offset = before.end, before.end + before.shift
    said, answered = text[start : after.start], known.text[offset : after.offset]
    if not min(len(said), len(answered)) >= LEAST_INNER_BYTES or max(len(said), len(answered)) > _INNER_LIMIT:
        return []
    index = OverlapIndex(window_for(LEAST_INNER_BYTES))
    index.add(0, ids_of(answered))
    found = Gaps(0, len(said)).fill(index.find(ids_of(said), LEAST_INNER_BYTES), LEAST_INNER_BYTES)
    plain = View.plain(text)
    runs = [Run(start + each.start, start + each.end, before.key, offset + each.offset, plain, start + each.start) for each in found]
    return _in_order(sorted(runs, key=lambda run: run.start))


def token_runs(run: Run, known: Known, text: bytes) -> Iterator[tuple[int, int]]:
    """The whole tokens of `run`, as ranges of the answer's.

    They begin and end between characters and, where that costs few tokens, between words. A token that spells nothing is left out.
    """
    first = bisect_left(known.borders, run.offset)
    end = bisect_right(known.borders, run.end + run.shift) - 1
    first, end = _end_of(range(first, end + 1), run, known, text), _end_of(range(end, first - 1, -1), run, known, text)
    for silent in known.silent[bisect_left(known.silent, first) : bisect_left(known.silent, end)]:
        if first < silent:
            yield first, silent
        first = silent + 1
    if first < end:
        yield first, end


def ids_of(content: bytes) -> npt.NDArray[np.int32]:
    return np.frombuffer(content, np.uint8).astype(np.int32)


def _follows(run: Run, before: Run) -> bool:
    return run.offset >= before.end + before.shift


def _in_order(runs: Sequence[Run]) -> list[Run]:
    """Those that come in the order of the answer too."""
    kept: list[Run] = []
    for run in runs:
        if not kept or _follows(run, kept[-1]):
            kept.append(run)
    return kept


def _end_of(borders: range, run: Run, known: Known, text: bytes) -> int:
    """The first of the borders that a run may begin or end at; the last of them if there is none."""
    between = [border for border in borders[:_END_TOKENS] if not _parts_character(text, known.borders[border] - run.shift)]
    at = run.at - run.offset
    good = (border for border in between if not _parts_word(run.view.content, at + known.borders[border]))
    return next(good, between[0] if between else borders[-1] if borders else 0)


def _parts_character(text: bytes, place: int) -> bool:
    return place < len(text) and text[place] & 0xC0 == 0x80


def _parts_word(text: bytes, place: int) -> bool:
    return 0 < place < len(text) and text[place - 1 : place + 1].isalnum()
