"""The frame that all dialogs share, and the three simple ones: a text, a path, a choice. Esc leaves without a change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, OptionList, Static
from textual.widgets.option_list import Option

from relaylite.paths import expanded
from relaylite.terminal_text import fit_for_terminal, one_line
from relaylite.tui.widgets.fields import LineField, TextField

Result = TypeVar("Result")


class Dialog(ModalScreen[Result | None], Generic[Result]):
    """A framed box with a title and a line that says which keys work. Those that extend it compose their widgets inside `frame`."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave")]
    title_text = ""
    hint = "Esc leaves"
    _is_answered = False

    def frame(self) -> Vertical:
        """What the dialog's widgets are put into."""
        box = Vertical(classes="dialog")
        box.border_title, box.border_subtitle = self.title_text, self.hint
        return box

    def tell(self, text: str, seconds: float) -> None:
        """Say something in the frame, in place of the keys, for some seconds: a notice would lie over the dialog, or be hidden by it."""
        box = next(iter(self.query(".dialog")), None)
        if box is not None:
            box.border_subtitle = one_line(text, 90)
            self.set_timer(seconds, lambda: setattr(box, "border_subtitle", self.hint))

    def answer(self, result: Result | None) -> None:
        """Leave with `result`. Keys that were pressed before the dialog was gone may answer again: that counts for nothing."""
        if not self._is_answered:
            self._is_answered = True
            self.dismiss(result)

    def action_leave(self) -> None:
        self.answer(None)


class TextDialog(Dialog[str]):
    """Edit a text of several lines; gives the new text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+d", "done", "Done", priority=True),
        Binding("ctrl+g", "edit_outside", "Editor", priority=True),
    ]
    hint = "Ctrl+D applies it · Ctrl+G opens $EDITOR · Esc leaves it as it was"

    def __init__(self, title: str, text: str, note: str = "") -> None:
        super().__init__()
        self.title_text, self._text, self._note = title, text, note

    def compose(self) -> ComposeResult:
        with self.frame():
            if self._note:
                yield Static(Content(self._note), classes="note")
            yield TextField(self._text, id="text")
            yield Button("Apply", variant="primary", id="done", compact=True)

    def action_edit_outside(self) -> None:
        self.query_one(TextField).edit_outside()

    @on(Button.Pressed, "#done")
    def action_done(self) -> None:
        self.answer(self.query_one(TextField).text)


class PathDialog(Dialog[Path]):
    """Ask for a file's place."""

    hint = "Enter goes on · Esc leaves"

    def __init__(self, title: str, path: Path) -> None:
        super().__init__()
        self.title_text, self._path = title, path

    def compose(self) -> ComposeResult:
        with self.frame():
            yield LineField(str(self._path), select_on_focus=False)

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.answer(expanded(event.value.strip()))


class ChoiceDialog(Dialog[str]):
    """One of several: id, name and a sentence each."""

    hint = "Enter chooses · Esc leaves"

    def __init__(self, title: str, choices: Sequence[tuple[str, str, str]], current: str) -> None:
        super().__init__()
        self.title_text, self._choices, self._current = title, choices, current

    def compose(self) -> ComposeResult:
        with self.frame():
            yield OptionList(*(Option(self._line(*choice), id=choice[0]) for choice in self._choices))

    def on_mount(self) -> None:
        options = self.query_one(OptionList)
        options.highlighted = next((i for i, (key, _, _) in enumerate(self._choices) if key == self._current), 0)

    def _line(self, key: str, name: str, about: str) -> Content:
        mark = "● " if key == self._current else "○ "
        return Content.assemble((mark + name, "bold"), (f"\n  {fit_for_terminal(about)}", "$muted"))

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.answer(event.option_id)
