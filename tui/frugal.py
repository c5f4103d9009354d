"""Writes to the terminal only what it does not show already.

Textual draws a row several times for one new line of an answer, each time in full. What a part of a row showed last is remembered
here; the same again is not written. Everything that Textual draws comes through the two methods that are replaced.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from textual._compositor import ChopsUpdate, LayoutUpdate

_shown: dict[int, dict[int, tuple[int, str]]] = {}  # row → first column → the column behind, and what was written there
_draw_all = LayoutUpdate.render_segments


def be_frugal() -> None:
    """From now on, for this process."""
    parts: Any = ChopsUpdate
    whole: Any = LayoutUpdate
    parts.render_segments, whole.render_segments = _parts, _whole


def forget_screen() -> None:
    """Something else wrote to the terminal: all is drawn again."""
    _shown.clear()


def _whole(update: LayoutUpdate, console: Console) -> str:
    forget_screen()
    return _draw_all(update, console)


def _parts(update: ChopsUpdate, console: Console) -> str:
    written = []
    for y, x1, x2 in update.spans:
        row = _shown.setdefault(y, {})
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is None or x >= x2 or end <= x1:
                continue
            if x1 <= x and end <= x2:
                text = strip.render(console)
                if row.get(x) == (end, text):
                    continue
                _forget(row, x, end)
                row[x] = (end, text)
                written.append(f"\x1b[{y + 1};{x + 1}H{text}")
            else:
                is_narrow = strip.cell_length == len(strip.text)  # a wide letter must not be cut in two
                start = max(x, x1) if is_narrow else x
                _forget(row, x, end)
                written.append(f"\x1b[{y + 1};{start + 1}H{strip.crop(start - x, min(end, x2) - x).render(console)}")
    return "".join(written)


def _forget(row: dict[int, tuple[int, str]], start: int, end: int) -> None:
    """What stood in columns `[start, end)` is not known any more."""
    for x in [x for x, (behind, _) in row.items() if x < end and behind > start]:
        del row[x]
