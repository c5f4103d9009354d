"""What Textual 8 does not do for us: read bytes that are no UTF-8, old mouse reports and Alt+Enter, and wrap to no width at all."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from typing import Any

from rich._wrap import divide_line
from textual import _ansi_sequences, content
from textual.drivers import linux_driver

OLD_MOUSE_REPORT = re.compile(rb"\x1b\[M[\x20-\xff]{3}")  # of terminals without SGR reports: three bytes that need not be UTF-8
UNFINISHED_REPORT = re.compile(rb"\x1b\[(M[\x20-\xff]{0,2})?\Z")


class _AltEnter:
    value = "alt+enter"


def _divide_line(text: str, width: int, fold: bool = True) -> list[int]:
    return divide_line(text, max(1, width), fold)


class InputDecoder:
    """Decodes what is read from the terminal, piece by piece. A byte that is no UTF-8 becomes U+FFFD; old mouse reports are left out."""

    def __init__(self) -> None:
        self._utf8 = getincrementaldecoder("utf-8")("replace")
        self._rest = b""

    def decode(self, data: bytes, final: bool = False) -> str:
        data = OLD_MOUSE_REPORT.sub(b"", self._rest + data)
        unfinished = None if final else UNFINISHED_REPORT.search(data)
        self._rest = unfinished[0] if unfinished is not None else b""
        return self._utf8.decode(data[: len(data) - len(self._rest)], final)


def mend_textual() -> None:
    """Have Textual do these too; once for a process.

    Terminals without the kitty protocol send ESC CR for Alt+Enter, which Textual takes for Enter. Its reading thread decodes strictly:
    one byte that is no UTF-8 would end it, and the app with it. Text that gets no column, in a terminal of four, is an error there.
    """
    sequences: Any = _ansi_sequences.ANSI_SEQUENCES_KEYS
    sequences["\x1b\r"] = sequences["\x1b\n"] = (_AltEnter,)
    reader: Any = linux_driver
    reader.getincrementaldecoder = lambda _encoding: InputDecoder
    wrapping: Any = content
    wrapping.divide_line = _divide_line
