"""`Plan` of a prompt, tiled by `Segment`s: which tokens come from where. Plain values, made before anything touches the cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from relaylite.reuse.policies import Policy
from relaylite.reuse.rows import Rows, Tokens


class Kind(Enum):
    """How the rows of a segment come to be."""

    PREFIX = "prefix"  # taken over in place: nothing is rotated or repaired
    SPAN = "span"  # relayed: placed, rotated, and repaired where the policy says so
    NEW = "new"  # computed


@dataclass(frozen=True, slots=True)
class Segment:
    """Positions `[start, end)` of a prompt, and where their rows are: those of `rows`' tokens from `offset` on, one token a position.

    The token ids at these positions are `rows.tokens[offset : offset + len(self)]`. `rows` is None exactly if `kind` is NEW. The store
    finds segments, a plan is tiled by them, and the native cache writes their rows into its slots; none of these steps copies rows.
    """

    start: int
    end: int
    kind: Kind
    rows: Rows | None = None
    offset: int = 0

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def rotation(self) -> int:
        """Positions by which K must be rotated: from where the rows were computed to `start`. 0 without rows."""
        return 0 if self.rows is None else self.start - (self.rows.position + self.offset)

    @property
    def n_exact(self) -> int:
        """How many tokens from the start of the segment have exact rows (`Rows.n_exact`). 0 without rows."""
        return 0 if self.rows is None else min(max(self.rows.n_exact - self.offset, 0), len(self))

    def within(self, start: int, end: int) -> Segment:
        """The part at positions `[start, end)`, of which the segment must hold one at least."""
        first, last = max(start, self.start), min(end, self.end)
        return replace(self, start=first, end=last, offset=self.offset + first - self.start if self.rows is not None else 0)

    def without_rows(self) -> Segment:
        """The same positions, whose cells are left for later."""
        return Segment(self.start, self.end, Kind.NEW)


@dataclass(frozen=True, slots=True)
class Quote:
    """Positions `[start, end)` of a prompt hold tokens of `text`, an answer that may be stored as a whole, from its `offset` on.

    Where the whole is found, shorter runs are worth taking over: it is known what they are.
    """

    start: int
    end: int
    text: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Segments that tile `tokens` (int32 `[n]`) in ascending order: no gap, no overlap. The last token is always NEW, since its logits
    are needed. Raises ValueError if the segments are not so. `quotes`: what `make_plan` was told of the tokens.
    """

    tokens: Tokens
    segments: tuple[Segment, ...]
    policy: Policy
    quotes: tuple[Quote, ...] = ()

    def __post_init__(self) -> None:
        position = 0
        for segment in self.segments:
            if segment.start != position or segment.end <= segment.start:
                raise ValueError(f"segment [{segment.start}, {segment.end}) does not continue at {position}")
            if (segment.rows is None) != (segment.kind is Kind.NEW):
                raise ValueError(f"a {segment.kind.value} segment {'needs' if segment.rows is None else 'has no'} rows")
            position = segment.end
        if position != len(self.tokens):
            raise ValueError(f"segments end at {position}, the prompt at {len(self.tokens)}")
        if not self.segments or self.segments[-1].kind is not Kind.NEW:
            raise ValueError("the last token of a prompt must be computed")

    @property
    def n_exact(self) -> int:
        """Tokens from the start whose rows will be exact: `Rows.n_exact` of a harvest that ends with the prompt."""
        n = 0
        for segment in self.segments:
            if segment.kind is Kind.SPAN:
                return n
            if segment.kind is Kind.PREFIX and segment.n_exact < len(segment):
                return n + segment.n_exact
            n = segment.end
        return n

    def of(self, kind: Kind) -> Iterator[Segment]:
        """Segments of this kind, ascending."""
        return (segment for segment in self.segments if segment.kind is kind)

    def count(self, kind: Kind) -> int:
        """Tokens of this kind."""
        return sum(len(segment) for segment in self.of(kind))

    def positions(self, kind: Kind) -> Tokens:
        """Positions of all tokens of this kind, ascending, int32."""
        ranges = [np.arange(s.start, s.end, dtype=np.int32) for s in self.of(kind)]
        return np.concatenate(ranges) if ranges else np.empty(0, np.int32)
