"""Alignment of a rendered prompt with the texts it was made from: which characters of each fragment the template kept.

Pure text work: it knows neither templates nor tokens, and never fails; what it cannot explain counts as kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Range = tuple[int, int]  # characters [start, end)

_MAX_ENDS = 64  # places tried for the end of one fragment


def align(texts: Sequence[str], fragments: Sequence[str], rendered: str) -> list[Range]:
    """What `rendered` holds of each fragment, where it is `texts[0]`, some of `fragments[0]`, `texts[1]`, …, `texts[-1]`.

    A fragment that was rewritten, not merely trimmed, counts as kept whole; so do all if the texts are not there in this order.
    """
    whole = [(0, len(fragment)) for fragment in fragments]
    if not rendered.startswith(texts[0]):
        return whole
    position = len(texts[0])
    found: list[Range] = []
    for i, (fragment, after) in enumerate(zip(fragments, texts[1:], strict=True)):
        ends = _ends(rendered, position, fragment, after, is_last=i == len(fragments) - 1)
        trimmed = ((at, end) for end in ends if (at := fragment.rfind(rendered[position:end])) >= 0)
        start, end = next(trimmed, (-1, rendered.find(after, position)))
        if end < 0:
            return whole
        found.append((start, start + end - position) if start >= 0 else whole[i])
        position = end + len(after)
    return found if position == len(rendered) else whole


def _ends(rendered: str, position: int, fragment: str, after: str, *, is_last: bool) -> Iterator[int]:
    """Where what was kept of `fragment` may end, the farthest first: a text that looks like `after` may stand in a fragment."""
    if is_last:
        if rendered.endswith(after) and len(rendered) - len(after) >= position:
            yield len(rendered) - len(after)
    elif not after:
        lengths = {len(fragment), len(fragment.rstrip()), len(fragment.lstrip()), len(fragment.strip())}
        yield from (position + length for length in sorted(lengths, reverse=True))
    else:
        end = position + len(fragment) + 1
        for _ in range(_MAX_ENDS):
            end = rendered.rfind(after, position, end + len(after) - 1)
            if end < 0:
                return
            yield end
