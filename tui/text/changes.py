"""Which part of a line changed, so that only this part is drawn again."""

from __future__ import annotations

from textual.content import Content
from textual.geometry import Region


def changed_region(new: Content | None, old: Content | None, y: int) -> Region | None:
    """The columns of row `y` in which `new` and `old` differ; None if they do not. Trailing space that goes counts as changed."""
    new, old = new or Content(""), old or Content("")
    if new.is_same(old):
        return None
    width = max(new.cell_length, old.cell_length, 1)
    head = _common(new.plain, old.plain)
    while head and not new[:head].is_same(old[:head]):
        head //= 2
    start = new[:head].cell_length
    tail = 0
    if new.cell_length == old.cell_length:
        limit = min(len(new.plain), len(old.plain)) - head
        tail = min(_common(new.plain[::-1], old.plain[::-1]), limit)
        while tail and not new[len(new.plain) - tail :].is_same(old[len(old.plain) - tail :]):
            tail //= 2
    end = width - (new[len(new.plain) - tail :].cell_length if tail else 0)
    return Region(start, y, max(1, end - start), 1)


def _common(a: str, b: str) -> int:
    """Letters that both begin with."""
    length = min(len(a), len(b))
    return next((at for at in range(length) if a[at] != b[at]), length)
