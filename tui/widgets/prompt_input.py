"""The input: several lines, history, whole pastes. Enter sends; Ctrl+J, Shift+Enter or Alt+Enter makes a new line."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from textual import events, on
from textual.message import Message
from textual.widgets import TextArea

from relaylite.tui.files import History
from relaylite.tui.text import mentions
from relaylite.tui.widgets.fields import TextField
from relaylite.tui.widgets.file_picker import FilePicker

NEW_LINE_KEYS = ("ctrl+j", "shift+enter", "alt+enter", "shift+\r")  # the last: xterm's modifyOtherKeys


class PromptInput(TextField):
    """Posts `Sent`, also for an empty text. A message that could not be sent is put back with `give_back`."""

    class Sent(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Left(Message):
        """Tab: to the conversation."""

    def __init__(self, history: History, picker: FilePicker, **kwargs: Any) -> None:
        """`picker` offers the files that an @ may mean."""
        super().__init__(highlight_cursor_line=False, **kwargs)
        self._history = history
        self._place: int | None = None  # in the history; None is the draft
        self._draft = ""
        self._picker, self._files = picker, list[str]()
        self._is_mentioning = self._has_left = False  # whether an @name is being typed, and whether its picker was left

    async def _on_key(self, event: events.Key) -> None:
        if self._picker.is_open and event.key in ("tab", "enter"):
            event.stop()
            event.prevent_default()
            self._complete()
        elif event.key == "enter":
            event.stop()
            event.prevent_default()
            self._send()
        elif event.key in NEW_LINE_KEYS:
            event.stop()
            event.prevent_default()
            self.insert("\n")
        elif event.key == "tab":
            event.stop()
            event.prevent_default()
            self.post_message(self.Left())
        else:
            await super()._on_key(event)

    def leave_picker(self) -> bool:
        """Close the picker until another @ is typed; whether it was open."""
        was_open = self._picker.is_open
        self._has_left = self._has_left or was_open
        self._picker.offer([])
        return was_open

    @on(TextArea.Changed)
    @on(TextArea.SelectionChanged)
    def _offer(self) -> None:
        mention = self._mention()
        if mention is None:
            self._is_mentioning = self._has_left = False
            self._picker.offer([])
        elif not self._is_mentioning:
            self._is_mentioning, self._files = True, []
            self.run_worker(self._look_for_files(), exclusive=True, group="files")
        elif not self._has_left:
            self._picker.offer(mentions.matching(self._files, mention[1]))

    async def _look_for_files(self) -> None:
        self._files = await asyncio.to_thread(mentions.files_below, Path.cwd())
        self._offer()

    def _mention(self) -> tuple[int, str] | None:
        row, column = self.cursor_location
        return mentions.begun(str(self.document.get_line(row))[:column])

    def _complete(self) -> None:
        if (mention := self._mention()) is not None:
            row = self.cursor_location[0]
            self.replace(mentions.mention_of(self._picker.chosen), (row, mention[0]), self.cursor_location, maintain_selection_offset=False)
        self._picker.offer([])

    def _send(self) -> None:
        self.post_message(self.Sent(self.text))

    def taken(self) -> None:
        """The message is on its way: remember it and empty the input."""
        self._history.add(self.text)
        self._place = None
        self.clear()

    def take_up(self, text: str) -> bool:
        """Show `text` instead of what was typed, which goes to the history; whether there was something."""
        has_draft = bool(self.text.strip())
        if has_draft:
            self._history.add(self.text)
        self._place = None
        self.load_text(text)
        self.move_cursor(self.document.end)
        return has_draft

    def give_back(self, text: str) -> None:
        """Put a message back for another try, unless something else was typed meanwhile."""
        if not self.text.strip():
            self.load_text(text)
            self.move_cursor(self.document.end)

    def action_cursor_up(self, select: bool = False) -> None:
        if self._picker.is_open:
            self._picker.move(-1)
        elif select or self.cursor_location[0] > 0 or not self._recall(-1):
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        if self._picker.is_open:
            self._picker.move(1)
        elif select or self.cursor_location[0] < self.document.line_count - 1 or not self._recall(1):
            super().action_cursor_down(select)

    def _recall(self, step: int) -> bool:
        """Show the message before (-1) or after (1) in the history; whether there was one."""
        entries = self._history.entries
        place = len(entries) if self._place is None else self._place
        target = place + step
        if not 0 <= target <= len(entries) or target == place:
            return False
        if self._place is None:
            self._draft = self.text
        self._place = None if target == len(entries) else target
        self.load_text(self._draft if self._place is None else entries[target])
        self.move_cursor(self.document.end)
        return True
