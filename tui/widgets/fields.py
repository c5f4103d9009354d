"""Fields to type into. Textual writes a field's text as it is, so what is pasted or loaded into one is made fit for a terminal.

What is typed stays: also spaces that do not break, joiners and soft hyphens, which Textual leaves out as not printable.
"""

from __future__ import annotations

from typing import Any

from textual import events
from textual.widgets import Input, TextArea

from relaylite.errors import UsageError
from relaylite.terminal_text import fit_for_terminal
from relaylite.tui.editor import edit_outside
from relaylite.tui.text.corrections import fit_with_line_ends


def is_typed_text(event: events.Key) -> bool:
    """Whether the key is a character that belongs into a text, though Python does not call it printable."""
    character = event.character or " "
    return not event.is_printable and ord(character[0]) >= 0xA0 and fit_for_terminal(character) == character


class LineField(Input):
    """One line."""

    def validate_value(self, value: str) -> str:
        return fit_for_terminal(value).replace("\n", " ")

    async def _on_key(self, event: events.Key) -> None:
        if is_typed_text(event):
            event.stop()
            event.prevent_default()
            self.insert_text_at_cursor(event.character or "")
        else:
            await super()._on_key(event)

    def _on_paste(self, event: events.Paste) -> None:
        event.text = fit_with_line_ends(event.text)  # Textual calls Input's handler next


class TextField(TextArea):
    """Several lines."""

    def __init__(self, text: str = "", **kwargs: Any) -> None:
        super().__init__(fit_with_line_ends(text), soft_wrap=True, show_line_numbers=False, tab_behavior="focus", **kwargs)

    def load_text(self, text: str) -> None:
        super().load_text(fit_with_line_ends(text))

    async def _on_key(self, event: events.Key) -> None:
        if is_typed_text(event):
            event.stop()
            event.prevent_default()
            self.replace(event.character or "", *self.selection, maintain_selection_offset=False)
        else:
            await super()._on_key(event)

    def edit_outside(self) -> None:
        """Let the user change the text in an editor of their own."""
        try:
            edited = fit_with_line_ends(edit_outside(self.app, self.text))
        except UsageError as error:
            self.app.notify(str(error), severity="error")
            return
        if edited != self.text:
            self.replace(edited, (0, 0), self.document.end)  # in one step, which Ctrl+Z takes back

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()  # else the app passes it on to this field once more
        event.text = fit_with_line_ends(event.text)  # Textual calls TextArea's handler next
