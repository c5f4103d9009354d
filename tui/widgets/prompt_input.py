"""The input: several lines, history, whole pastes. Enter sends; Ctrl+J, Shift+Enter or Alt+Enter makes a new line."""

from __future__ import annotations

from typing import Any

from textual import events
from textual.message import Message

from relaylite.tui.files import History
from relaylite.tui.widgets.fields import TextField

NEW_LINE_KEYS = ("ctrl+j", "shift+enter", "alt+enter", "shift+\r")  # the last: xterm's modifyOtherKeys


class PromptInput(TextField):
    """Posts `Sent`, also for an empty text. A message that could not be sent is put back with `give_back`."""

    class Sent(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Left(Message):
        """Tab: to the conversation."""

    def __init__(self, history: History, **kwargs: Any) -> None:
        super().__init__(highlight_cursor_line=False, **kwargs)
        self._history = history
        self._place: int | None = None  # in the history; None is the draft
        self._draft = ""

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
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

    def _send(self) -> None:
        self.post_message(self.Sent(self.text))

    def taken(self) -> None:
        """The message is on its way: remember it and empty the input."""
        self._history.add(self.text)
        self._place = None
        self.clear()

    def give_back(self, text: str) -> None:
        """Put a message back for another try, unless something else was typed meanwhile."""
        if not self.text.strip():
            self.load_text(text)
            self.move_cursor(self.document.end)

    def action_cursor_up(self, select: bool = False) -> None:
        if select or self.cursor_location[0] > 0 or not self._recall(-1):
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        if select or self.cursor_location[0] < self.document.line_count - 1 or not self._recall(1):
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
