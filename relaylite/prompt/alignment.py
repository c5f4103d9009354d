"""Alignment: which characters of each fragment a chat template kept, found by comparing its output with the texts that went in.

Pure text work: it knows neither templates nor tokens. It never fails: what it cannot explain counts as kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Range = tuple[int, int]  # characters [start, end)

_MAX_ENDS = 64  # places tried for the end of one fragment
_MAX_STEPS = 1000  # ends tried in vain, of all fragments


def align(texts: Sequence[str], fragments: Sequence[str], rendered: str) -> list[Range]:
    """What `rendered` holds of each fragment, where it is `texts[0]`, some of `fragments[0]`, `texts[1]`, …, `texts[-1]`.

    A fragment that was rewritten, not merely trimmed, counts as kept whole; so do all if the texts are not there in this order.
    """
    whole = [(0, len(fragment)) for fragment in fragments]
    if not rendered.startswith(texts[0]):
        return whole
    pieces = list(zip(fragments, texts[1:], strict=True))
    return _explained(pieces, len(texts[0]), rendered) or _guessed(pieces, len(texts[0]), rendered) or whole


def _explained(pieces: Sequence[tuple[str, str]], position: int, rendered: str) -> list[Range] | None:
    """Ranges with which fragments and the texts behind them make all of `rendered[position:]`; None if none were found."""
    if not pieces:
        return None
    found: list[Range] = []
    tried = [_trimmed(pieces, 0, position, rendered)]
    n_failed = 0
    while tried and n_failed <= _MAX_STEPS:
        step = next(tried[-1], None)
        if step is None:
            n_failed += 1
            tried.pop()
            del found[len(tried) - 1 :]
            continue
        kept, position = step
        del found[len(tried) - 1 :]
        found.append(kept)
        if len(found) < len(pieces):
            tried.append(_trimmed(pieces, len(found), position, rendered))
        elif position == len(rendered):
            return found
    return None


def _guessed(pieces: Sequence[tuple[str, str]], position: int, rendered: str) -> list[Range] | None:
    """The same where fragments may be rewritten: one that cannot be found counts as whole and ends where the text behind it begins."""
    found: list[Range] = []
    for i, (fragment, after) in enumerate(pieces):
        end = rendered.find(after, position)
        said = (step for step in _trimmed(pieces, i, position, rendered) if after or step[1] > position)  # nothing at all explains nothing
        kept, behind = next(said, ((0, len(fragment)), end + len(after) if end >= 0 else -1))
        if behind < 0:
            return None
        found.append(kept)
        position = behind
    return found if position == len(rendered) else None


def _trimmed(pieces: Sequence[tuple[str, str]], i: int, position: int, rendered: str) -> Iterator[tuple[Range, int]]:
    """What may have been kept of fragment `i`, the most first, and where the text behind it ends then."""
    fragment, after = pieces[i]
    for end in _ends(rendered, position, fragment, after, is_last=i == len(pieces) - 1):
        start = fragment.rfind(rendered[position:end])
        if start >= 0:
            yield (start, start + end - position), end + len(after)


def _ends(rendered: str, position: int, fragment: str, after: str, *, is_last: bool) -> Iterator[int]:
    """Where what was kept of `fragment` may end, the farthest first: a text that looks like `after` may stand in a fragment."""
    if is_last:
        if rendered.endswith(after) and len(rendered) - len(after) >= position:
            yield len(rendered) - len(after)
    elif not after:
        lengths = {len(fragment), len(fragment.rstrip()), len(fragment.lstrip()), len(fragment.strip()), 0}
        yield from (position + length for length in sorted(lengths, reverse=True) if position + length <= len(rendered))
    else:
        end = position + len(fragment) + 1
        for _ in range(_MAX_ENDS):
            end = rendered.rfind(after, position, end + len(after) - 1)
            if end < 0:
                return
            yield end
