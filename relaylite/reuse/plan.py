"""The plan of a prompt: which tokens come from where. A plain value, made before anything touches the cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from relaylite.reuse.policies import Policy
from relaylite.reuse.rows import Rows, Tokens


class Kind(Enum):
    """How the rows of a segment come to be."""

    PREFIX = "prefix"  # taken over in place, exactly
    SPAN = "span"  # relayed: placed, rotated, and repaired where the policy says so
    NEW = "new"  # computed


@dataclass(frozen=True, slots=True)
class Match:
    """Prompt positions `[start, start + n)` whose token ids equal `rows.tokens[offset : offset + n]`."""

    start: int
    rows: Rows
    offset: int
    n: int

    @property
    def end(self) -> int:
        return self.start + self.n


@dataclass(frozen=True, slots=True)
class Segment:
    """Prompt positions `[start, end)`, all of one kind; `match` is None exactly when `kind` is NEW."""

    start: int
    end: int
    kind: Kind
    match: Match | None = None

    def __len__(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Plan:
    """Segments that tile `tokens`: no gap, no overlap. The last token is always NEW, since its logits are needed."""

    tokens: Tokens
    segments: tuple[Segment, ...]
    policy: Policy

    def __post_init__(self) -> None:
        position = 0
        for segment in self.segments:
            if segment.start != position or segment.end <= segment.start:
                raise ValueError(f"segment [{segment.start}, {segment.end}) does not continue at {position}")
            if (segment.match is None) != (segment.kind is Kind.NEW):
                raise ValueError(f"a {segment.kind.value} segment {'needs' if segment.match is None else 'has no'} rows")
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
            if segment.match is None:
                n = segment.end
                continue
            exact = min(max(segment.match.rows.n_exact - segment.match.offset, 0), len(segment))
            if segment.kind is Kind.SPAN or exact < len(segment):
                return n + (exact if segment.kind is Kind.PREFIX else 0)
            n = segment.end
        return n

    def of(self, kind: Kind) -> Iterator[Segment]:
        return (segment for segment in self.segments if segment.kind is kind)

    def count(self, kind: Kind) -> int:
        """Tokens of this kind."""
        return sum(len(segment) for segment in self.of(kind))

    def positions(self, kind: Kind) -> Tokens:
        """Positions of all tokens of this kind, ascending, int32."""
        ranges = [np.arange(s.start, s.end, dtype=np.int32) for s in self.of(kind)]
        return np.concatenate(ranges) if ranges else np.empty(0, np.int32)
