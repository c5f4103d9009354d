"""Makes the plan of a prompt: asks the store what is known, and tiles the tokens by it. Touches no cache and no model.

Exact policies take rows over only from a stored run that `tokens` starts with, and of it only the rows that llama.cpp computed
itself. Relaying policies also go on from their own earlier prompts, whose rows may rest on relayed ones: those count as prefix
(nothing moves), so a conversation keeps what its first relay lost and loses no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from relaylite.errors import UsageError
from relaylite.reuse.plan import Kind, Match, Plan, Segment
from relaylite.reuse.policies import Policy
from relaylite.reuse.rows import Tokens


class Matcher(Protocol):
    """What a plan needs of a store."""

    def prefix(self, tokens: Tokens, *, exact: bool) -> Match | None: ...

    def spans(self, tokens: Tokens, start: int, min_length: int) -> list[Match]: ...


def make_plan(tokens: Sequence[int] | Tokens, store: Matcher, policy: Policy) -> Plan:
    """Prefix first, then spans of at least `policy.min_span` tokens, the rest new; the last token is always new.

    Raises UsageError if there are no tokens.
    """
    prompt = np.asarray(tokens, dtype=np.int32)
    if not len(prompt):
        raise UsageError("the prompt is empty; give a task")
    known: list[Segment] = []
    end = len(prompt) - 1
    position = 0
    prefix = store.prefix(prompt, exact=policy.is_exact) if policy.use_prefix else None
    if prefix is not None and (n := min(prefix.n, end)) > 0:
        known.append(_segment(Kind.PREFIX, prefix, n))
        position = n
    for match in store.spans(prompt, position, policy.min_span) if policy.use_spans else ():
        n = min(match.end, end) - match.start
        if n > 0:
            known.append(_segment(Kind.SPAN, match, n))
    return Plan(prompt, tuple(_tiled(known, len(prompt))), policy)


def _segment(kind: Kind, match: Match, n: int) -> Segment:
    """The first `n` tokens of `match`."""
    return Segment(match.start, match.start + n, kind, Match(match.start, match.rows, match.offset, n))


def _tiled(known: Sequence[Segment], length: int) -> list[Segment]:
    """`known` with new segments in the gaps."""
    tiles: list[Segment] = []
    position = 0
    for segment in known:
        if segment.start > position:
            tiles.append(Segment(position, segment.start, Kind.NEW))
        tiles.append(segment)
        position = segment.end
    if position < length:
        tiles.append(Segment(position, length, Kind.NEW))
    return tiles
