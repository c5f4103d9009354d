"""Text from models, files and the clipboard, made fit for a terminal: shown or stripped, never run.

One character gives one character or none, so that text which arrives in pieces can be cleaned piece by piece.
"""

from __future__ import annotations

_STRIPPED = "\u200e\u200f\u061c" + "".join(map(chr, [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF, 0x0D]))
_LINE_ENDS = "\u2028\u2029\x0b\x0c\x85"


class _Table(dict[int, str | None]):
    """A translation table that decides about a character when it is first met."""

    def __missing__(self, code: int) -> str | None:
        self[code] = value = _shown(code)
        return value


def _shown(code: int) -> str | None:
    char = chr(code)
    if char in _STRIPPED or 0xE0000 <= code <= 0xE007F:  # direction marks and invisible tags
        return None
    if char in _LINE_ENDS:
        return "\n"
    if code < 0x20 and char not in "\n\t":
        return chr(0x2400 + code)  # the picture of a control character, such as ␛
    if code == 0x7F:
        return "\u2421"
    if 0x80 <= code < 0xA0 or 0xD800 <= code < 0xE000:  # C1 controls, lone surrogates
        return "\ufffd"
    return char


_TABLE = _Table()


def safe_text(text: str) -> str:
    """`text` without anything that a terminal would obey: control characters as pictures, direction marks gone."""
    return text.translate(_TABLE)


def one_line(text: str, width: int = 80) -> str:
    """The first `width` characters of `text` on one line, for titles and notices."""
    flat = " ".join(safe_text(text[: width * 4]).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
