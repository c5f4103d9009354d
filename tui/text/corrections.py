"""A text as a field shows it, and what its owner's changes there make of the text itself."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

from relaylite.terminal_text import fit_for_terminal


def fit_with_line_ends(text: str) -> str:
    """A whole text made fit for a terminal. CR LF and CR end lines: terminals send CR for each line end of a paste."""
    return fit_for_terminal(text.replace("\r\n", "\n").replace("\r", "\n"))


def corrected(text: str, edited: str) -> str:
    """`text` with the changes that were made to what a field showed of it. Lines that were not changed stay as they are in `text`."""
    lines = list(_lines_as_shown(text))
    shown, wanted = [shown for _, shown in lines], edited.splitlines(keepends=True)
    kept: list[str] = []
    for tag, start, end, wanted_start, wanted_end in SequenceMatcher(None, shown, wanted, autojunk=False).get_opcodes():
        kept += [line for line, _ in lines[start:end]] if tag == "equal" else wanted[wanted_start:wanted_end]
    return "".join(kept)


def _lines_as_shown(text: str) -> Iterator[tuple[str, str]]:
    """Each line as it stands in `text`, and as a field shows it; both with their ends."""
    start = 0
    for at, character in enumerate(text):
        is_end = fit_with_line_ends(character) == "\n" and text[at : at + 2] != "\r\n"
        if is_end or at + 1 == len(text):
            line = text[start : at + 1]
            yield line, fit_with_line_ends(line)
            start = at + 1
