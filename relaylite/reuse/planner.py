"""Makes the plan of a prompt: asks the store what is known, and tiles the tokens by it. Touches no cache and no model.

Exact policies take over only exact rows of a stored text that the prompt begins with. Relaying policies also go on from their own earlier
prompts, whose rows may rest on relayed ones. These are not exact, but nothing is moved again, so no loss is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from relaylite.errors import UsageError
from relaylite.reuse.plan import Kind, Plan, Quote, Segment
from relaylite.reuse.policies import Policy
from relaylite.reuse.rows import Tokens

MIN_QUOTED = 2  # tokens in a row of a text that is known to be there: code that was escaped breaks at every line


class Matcher(Protocol):
    """What a plan needs of a store: which parts of a prompt are known. Tokens are int32 `[n]`.

    Segments that are returned hold rows of the layout that the caller places, at least one token, and no token at another place: the ids
    at their positions equal those of their rows. The rows stay valid as long as the segment is held. They may be loaded when they are
    used, and then raise `Damaged`.
    """

    def prefix(self, tokens: Tokens, *, exact: bool) -> Segment | None:
        """The longest known start of `tokens`: PREFIX from position 0 on, None if nothing is known.

        It may reach the end of `tokens`. With `exact`, only exact rows count, and the segment's rows are exact throughout.
        """
        ...

    def spans(self, tokens: Tokens, start: int, min_length: int, quotes: Sequence[Quote] = ()) -> list[Segment]:
        """What is known of `tokens[start:]`, wherever it stood: SPANs of at least `min_length` tokens, ascending and disjoint.

        Positions count from the start of `tokens`. The last one may reach the end. Within `quotes` of texts of which as much is known,
        SPANs of at least `MIN_QUOTED` tokens of the same text.
        """
        ...


def make_plan(tokens: Sequence[int] | Tokens, store: Matcher, policy: Policy, quotes: Sequence[Quote] = ()) -> Plan:
    """Prefix first, then spans of at least `policy.min_span` tokens, the rest new; the last token is always new.

    In `quotes` (`Prompt.quotes`) shorter spans will do. Raises UsageError if there are no tokens.
    """
    prompt = np.asarray(tokens, dtype=np.int32)
    if not len(prompt):
        raise UsageError("the prompt is empty; give a task")
    prefix = store.prefix(prompt, exact=policy.is_exact) if policy.use_prefix else None
    last = len(prompt) - 1
    known = [] if prefix is None else [prefix]
    if policy.use_spans:
        known += store.spans(prompt, min(prefix.end, last) if prefix is not None else 0, policy.min_span, quotes)
    segments = _tiled([segment.within(0, last) for segment in known if segment.start < last], len(prompt))
    return Plan(prompt, tuple(segments), policy, tuple(quotes))


def _tiled(known: Sequence[Segment], length: int) -> list[Segment]:
    """`known` with new segments in the gaps, up to `length`."""
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
