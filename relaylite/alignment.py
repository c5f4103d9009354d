"""Alignment of a rendered prompt with the texts it was made from: which characters of each message body the template kept.

Pure text work: it knows neither templates nor tokens, and never fails; what it cannot explain it reports as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Range = tuple[int, int]  # characters [start, end)

_MAX_ENDS = 64  # places tried for the end of one body


def align(texts: Sequence[str], bodies: Sequence[str], rendered: str) -> list[list[Range]] | None:
    """What `rendered` holds of each body, where it is `texts[0]`, some of `bodies[0]`, `texts[1]`, …, `texts[-1]`.

    A body that was rewritten, not merely shortened, counts as kept whole. None if the texts are not all there in this order.
    """
    if not rendered.startswith(texts[0]):
        return None
    position = len(texts[0])
    found: list[list[Range]] = []
    for i, (body, after) in enumerate(zip(bodies, texts[1:], strict=True)):
        ends = list(_ends(rendered, position, body, after, is_last=i == len(bodies) - 1))
        explained = ((end, ranges) for end in ends if (ranges := kept_ranges(body, rendered[position:end])) is not None)
        end, ranges = next(explained, (_rewritten_end(rendered, position, after, ends), [(0, len(body))]))
        if end < 0:
            return None
        found.append(ranges)
        position = end + len(after)
    return found if position == len(rendered) else None


def kept_ranges(body: str, kept: str) -> list[Range] | None:
    """Where the characters of `kept` stand in `body`: one run, or a head and a tail of it, trimmed or not. None if it is not so.

    Of several runs the last is meant: what templates drop from an answer, its thoughts, stands first.
    """
    if not kept:
        return []
    if len(kept) > len(body):
        return None
    if (at := body.rfind(kept)) >= 0:
        return [(at, at + len(kept))]
    start = len(body) - len(body.lstrip())
    return _head_and_tail(body, kept, 0, len(body)) or _head_and_tail(body, kept, start, len(body.rstrip()))


def _head_and_tail(body: str, kept: str, start: int, end: int) -> list[Range] | None:
    """`kept` as a head and a tail of `body[start:end]`. Of several cuts, the one that takes out what begins with `<`, `[` or `/`."""
    core = body[start:end]
    longest_head = _common_prefix(core, kept)
    shortest_head = len(kept) - _common_prefix(core[::-1], kept[::-1])
    if shortest_head > longest_head or len(kept) > len(core):
        return None
    head = next((cut for cut in range(shortest_head, longest_head + 1) if core[cut : cut + 1] in ("<", "[", "/")), longest_head)
    return [(start, start + head), (end - (len(kept) - head), end)]


def _common_prefix(a: str, b: str) -> int:
    """Characters that both begin with, by bisection: comparing slices is much faster than comparing characters."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _ends(rendered: str, position: int, body: str, after: str, *, is_last: bool) -> Iterator[int]:
    """Where the rest of `body` that begins at `position` may end, the farthest first: a text that looks like `after` may be in a body."""
    if is_last:
        if rendered.endswith(after) and len(rendered) - len(after) >= position:
            yield len(rendered) - len(after)
    elif not after:
        yield from (position + n for n in sorted({len(body), len(body.rstrip()), len(body.lstrip()), len(body.strip()), 0}, reverse=True))
    else:
        end = position + len(body) + 1
        for _ in range(_MAX_ENDS):
            end = rendered.rfind(after, position, end + len(after) - 1)
            if end < 0:
                return
            yield end


def _rewritten_end(rendered: str, position: int, after: str, ends: Sequence[int]) -> int:
    """Where a body ends of which nothing was recognised, -1 if that cannot be said."""
    if not after:
        return -1
    return ends[-1] if len(ends) == 1 else rendered.find(after, position)
