"""Text from models, files and the clipboard, made fit for a terminal: shown or left out, never obeyed.

The rule, the same for the command line and the app:

| characters | become |
| --- | --- |
| line feed, tab | stay |
| U+000B, U+000C, U+0085, U+2028, U+2029: other ends of a line | a line feed |
| carriage return | nothing |
| the other control characters below U+0020, and U+007F | their picture: `␛` for escape |
| U+0080 to U+009F, lone surrogates | U+FFFD |
| marks that turn the direction of writing, U+FEFF, tag characters (U+E0000 to U+E007F) | nothing |
| all others: letters, combining marks, emoji with their joiners and variation selectors | stay |

One character gives one character or none, so text that arrives in pieces can be made fit piece by piece.
"""

from __future__ import annotations

_LEFT_OUT = {0x0D, 0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF, *range(0xE0000, 0xE0080)}
_LINE_ENDS = {0x0B, 0x0C, 0x85, 0x2028, 0x2029}
_KEPT = {0x09, 0x0A}


class _Table(dict[int, str | None]):
    """A translation table that decides about a character when it is first met."""

    def __missing__(self, code: int) -> str | None:
        self[code] = shown = _shown(code)
        return shown


def _shown(code: int) -> str | None:
    if code in _LEFT_OUT:
        return None
    if code in _LINE_ENDS:
        return "\n"
    if code < 0x20 and code not in _KEPT:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    if 0x80 <= code < 0xA0 or 0xD800 <= code < 0xE000:
        return "\ufffd"
    return chr(code)


_TABLE = _Table()


def fit_for_terminal(text: str) -> str:
    """`text` without anything that a terminal would obey; see the rule above."""
    return text.translate(_TABLE)


def one_line(text: str, width: int = 80) -> str:
    """The beginning of `text` on one line of at most `width` characters, fit for a terminal."""
    flat = " ".join(fit_for_terminal(text[: width * 4]).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
