"""Fields to type into. What is pasted or loaded into them is made fit for a terminal: Textual writes a field's text as it is."""

from __future__ import annotations

from typing import Any

from textual import events
from textual.widgets import Input, TextArea

from relaylite.terminal_text import fit_for_terminal


class LineField(Input):
    """One line."""

    def _on_paste(self, event: events.Paste) -> None:
        event.text = fit_for_terminal(event.text)  # Textual calls Input's handler next


class TextField(TextArea):
    """Several lines."""

    def __init__(self, text: str = "", **kwargs: Any) -> None:
        super().__init__(fit_for_terminal(text), soft_wrap=True, show_line_numbers=False, tab_behavior="focus", **kwargs)

    def load_text(self, text: str) -> None:
        super().load_text(fit_for_terminal(text))

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()  # else the app passes it on to this field once more
        event.text = fit_for_terminal(event.text)  # Textual calls TextArea's handler next
