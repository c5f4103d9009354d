r"""Views of a text: as it stands, and with the escapes of JSON and of Python's repr undone, once or twice.

A view knows which of its bytes stand in the text as they are, and where: `\n` in the text is one byte of the view that stands nowhere.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

_DEPTH = 2  # JSON inside of JSON
_SIMPLE = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"} | {c: c for c in (b'"', b"'", b"\\", b"/")}
_ESCAPE = re.compile(
    rb"\\(?:([\"'\\/bfnrt])|u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U(000[0-9a-fA-F]{5}|0010[0-9a-fA-F]{4}))"
)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes `[start, end)` of a view that stand in the text as they are, from `place` on."""

    start: int
    end: int
    place: int


class View:
    """`content`: the bytes to read; `stretches`: which of them the text holds as they are, ascending in both."""

    def __init__(self, content: bytes, stretches: list[Stretch]) -> None:
        self.content, self.stretches = content, stretches
        self._starts = [stretch.start for stretch in stretches]

    @classmethod
    def plain(cls, text: bytes) -> View:
        return cls(text, [Stretch(0, len(text), 0)] if text else [])

    def within(self, start: int, end: int) -> Iterator[Stretch]:
        """The stretches in `[start, end)`, cut to it."""
        for i in range(max(bisect_right(self._starts, start) - 1, 0), len(self.stretches)):
            stretch = self.stretches[i]
            if stretch.start >= end:
                return
            first, last = max(start, stretch.start), min(end, stretch.end)
            if first < last:
                yield Stretch(first, last, stretch.place + first - stretch.start)


def views(text: bytes) -> Iterator[View]:
    """The text as it stands, then with one more layer of escapes undone each time, while there are any."""
    view = View.plain(text)
    yield view
    for _ in range(_DEPTH):
        if _ESCAPE.search(view.content) is None:
            return
        view = _unescaped(view)
        yield view


def _unescaped(view: View) -> View:
    parts: list[bytes] = []
    stretches: list[Stretch] = []
    at = n = 0
    for match in [*_ESCAPE.finditer(view.content), None]:
        start, end = match.span() if match else (len(view.content), len(view.content))
        stretches += [Stretch(n + each.start - at, n + each.end - at, each.place) for each in view.within(at, start)]
        parts.append(view.content[at:start])
        n += start - at
        at = end
        if match:
            parts.append(_meaning(match))
            n += len(parts[-1])
    return View(b"".join(parts), stretches)


def _meaning(escape: re.Match[bytes]) -> bytes:
    simple, high, low, *numbers = escape.groups()
    if simple:
        return _SIMPLE[simple]
    if high:
        return bytes.fromhex((high + low).decode()).decode("utf-16-be").encode()
    code = int(next(number for number in numbers if number), 16)
    return chr(code).encode("utf-8", "surrogatepass")  # half a character: no text holds its bytes
