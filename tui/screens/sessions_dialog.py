"""The kept conversations: open, rename, remove and restore one; search in what was said."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from relaylite.chain import sessions
from relaylite.chain.sessions import SessionEntry
from relaylite.errors import RelayliteError
from relaylite.terminal_text import one_line
from relaylite.tui.screens.dialog import Dialog
from relaylite.tui.widgets.fields import LineField

SHOWN_LIMIT = 500
FIRST_MESSAGE = 64  # characters of it that are shown: one line, also on a screen of 80 columns
DAY_S = 24 * 3600

log = logging.getLogger(__name__)


class SessionsDialog(Dialog[str]):
    """Gives the name of the session to open. `rename_current` renames the one that is open here, whose name is `current`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "rename", "Rename"),
        Binding("delete,backspace", "remove", "Remove"),
        Binding("u", "restore", "Restore"),
        Binding("slash", "search", "Search"),
    ]
    title_text = "Conversations"
    hint = "Enter opens · R renames · Del removes · U restores · / searches"

    class Found(Message):
        """The sessions that hold what was searched for."""

        def __init__(self, text: str, entries: Sequence[SessionEntry]) -> None:
            super().__init__()
            self.text, self.entries = text, entries

    def __init__(self, current: str, rename_current: Callable[[str], None]) -> None:
        super().__init__()
        self._current, self._rename_current = current, rename_current
        self._removed: list[str] = []

    def compose(self) -> ComposeResult:
        with self.frame():
            yield LineField(placeholder="search in names, messages and answers", id="words", compact=True)
            yield OptionList(id="found")

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()
        self.refresh_list()

    def refresh_list(self) -> None:
        """Look for sessions anew, in a thread: many files may have to be read."""
        text = self.query_one("#words", Input).value.strip()
        self.run_worker(partial(self._look, text), thread=True, exclusive=True, exit_on_error=False)

    def _look(self, text: str) -> None:
        """The dialog may be gone before this is done: then nobody reads the message."""
        try:
            self.post_message(self.Found(text, sessions.sessions(text)[:SHOWN_LIMIT]))
        except (OSError, RelayliteError):
            log.exception("the sessions could not be read")

    def on_sessions_dialog_found(self, event: Found) -> None:
        for fields in self.query("#words").results(Input):  # none once the dialog is being taken down
            if event.text == fields.value.strip():
                options = self.query_one(OptionList)
                selected = self._selected
                options.clear_options()
                options.add_options(Option(self._line(entry), id=entry.name) for entry in event.entries)
                names = [entry.name for entry in event.entries]
                options.highlighted = names.index(selected) if selected in names else 0 if names else None

    def _line(self, entry: SessionEntry) -> Content:
        count = f"{entry.n_rounds} message{'' if entry.n_rounds == 1 else 's'}" if entry.agents else "damaged"
        is_current = entry.name == self._current
        elsewhere = "  open elsewhere" if entry.is_open and not is_current else ""
        return Content.assemble(
            ("● " if is_current else "○ ", "bold"),
            (one_line(entry.name, 44), "bold"),
            (f"  {_age(entry.changed_s)}  {count}  {one_line(','.join(entry.agents), 40)}", "$muted"),
            (elsewhere, "$warning"),
            (f"\n  {one_line(entry.first_message, FIRST_MESSAGE)}", "$muted"),
        )

    @property
    def _selected(self) -> str | None:
        """The name of the selected session."""
        options = self.query_one(OptionList)
        return options.get_option_at_index(options.highlighted).id if options.highlighted is not None else None

    @on(Input.Changed, "#words")
    def _search(self) -> None:
        self.refresh_list()

    @on(Input.Submitted, "#words")
    def _to_list(self, event: Input.Submitted) -> None:
        event.stop()
        self.query_one(OptionList).focus()

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.answer(event.option_id)

    def action_search(self) -> None:
        self.query_one("#words").focus()

    def action_rename(self) -> None:
        if (name := self._selected) is not None:
            self.app.push_screen(NameDialog(name), partial(self._rename, name))

    def _rename(self, name: str, new_name: str | None) -> None:
        if new_name is None or new_name == name:
            return
        if name == self._current:
            self._rename_current(new_name)
            self._current = new_name
            self.set_timer(0.3, self.refresh_list)  # the engine's thread does it
        else:
            self._try(lambda: sessions.rename(name, new_name))

    def action_remove(self) -> None:
        name = self._selected
        if name is not None and name == self._current:
            self.app.notify("This conversation is open here. Begin another one (Ctrl+N), then remove it.", severity="warning")
        elif name is not None and self._try(lambda: sessions.remove(name)):
            self._removed.append(name)
            self.app.notify(f"Removed {name}; U brings it back.")

    def action_restore(self) -> None:
        if self._removed:
            if self._try(lambda: sessions.restore(self._removed[-1])):
                self._removed.pop()
        else:
            names = ", ".join(sessions.removed()) or "none"
            self.app.notify(f"Nothing was removed here. `relaylite sessions restore NAME` brings back earlier ones: {names}.")

    def _try(self, act: Callable[[], None]) -> bool:
        """Do it and show what is there then; whether it worked. If not, say why."""
        try:
            act()
        except RelayliteError as error:
            self.app.notify(str(error), severity="warning")
            return False
        self.refresh_list()
        return True


class NameDialog(Dialog[str]):
    """Ask for a session's name."""

    title_text = "Name"
    hint = "Enter renames · Esc leaves"

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name_now = name

    def compose(self) -> ComposeResult:
        with self.frame():
            yield LineField(self._name_now, select_on_focus=False)

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip():
            self.answer(event.value.strip())


def _age(changed_s: float) -> str:
    """When that was, as short as it is clear."""
    is_today = time.time() - changed_s < DAY_S and time.localtime(changed_s).tm_mday == time.localtime().tm_mday
    return time.strftime("%H:%M" if is_today else "%Y-%m-%d", time.localtime(changed_s))
