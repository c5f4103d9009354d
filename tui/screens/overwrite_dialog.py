"""Asks before a file is overwritten, and shows what would change in it."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Button, Static

from relaylite.terminal_text import fit_for_terminal, one_line
from relaylite.tui.screens.dialog import Dialog

DIFF_BYTES = 2_000_000  # of a file that is compared
DIFF_LINES = 500
STYLES = {"+": "$success", "-": "$error", "@": "$primary"}


def diff_lines(path: Path, text: str) -> Iterator[Content]:
    """What `text` would change in the file, as lines; or why that cannot be shown."""
    try:
        old = path.read_bytes().decode("utf-8") if path.is_file() and path.stat().st_size <= DIFF_BYTES else None
    except (OSError, UnicodeDecodeError):
        old = None
    if old is None:
        yield Content.styled("What is there cannot be compared.", "$muted")
        return
    changes = unified_diff(old.splitlines(), text.splitlines(), "now", "then", lineterm="", n=2)
    for line in islice(changes, 2, 2 + DIFF_LINES):
        yield Content.styled(fit_for_terminal(line), STYLES.get(line[:1], "$muted"))


class OverwriteDialog(Dialog[bool]):
    """Gives True to overwrite `path`. `text` is what would be written; None is not compared."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+d", "done", "Overwrite", priority=True)]
    hint = "Ctrl+D overwrites it · Esc leaves it as it is"

    def __init__(self, path: Path, text: str | None) -> None:
        super().__init__()
        self.title_text = f"{one_line(path.name, 40)} is there already"
        self._path, self._text = path, text

    def compose(self) -> ComposeResult:
        with self.frame():
            yield Static(Content(fit_for_terminal(str(self._path))), classes="note")
            with VerticalScroll():
                yield Static(Content("\n").join(diff_lines(self._path, self._text)) if self._text is not None else Content(""))
            yield Button("Overwrite", variant="warning", id="done", compact=True)

    @on(Button.Pressed, "#done")
    def action_done(self) -> None:
        self.answer(True)
