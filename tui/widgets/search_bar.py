"""Find text in the conversation: one line that opens above the input."""

from __future__ import annotations

from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static


class SearchBar(Horizontal):
    """Posts `Asked`; the screen finds and calls `show_result`."""

    class Asked(Message):
        """`step`: 0 for the text as it is typed, 1 for the next place, -1 for the one before."""

        def __init__(self, text: str, step: int) -> None:
            super().__init__()
            self.text, self.step = text, step

    class _Line(Input):
        async def _on_key(self, event: events.Key) -> None:
            steps: dict[str, Any] = {"enter": 1, "down": 1, "up": -1, "shift+enter": -1}
            if event.key in steps:
                event.stop()
                event.prevent_default()
                self.post_message(SearchBar.Asked(self.value, steps[event.key]))
            else:
                await super()._on_key(event)

    def __init__(self) -> None:
        super().__init__(id="search-bar")

    def compose(self) -> ComposeResult:
        yield Static("Find ", id="search-label")
        yield self._Line(id="search", placeholder="text", compact=True)
        yield Static("", id="search-result")

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    def open(self) -> None:
        self.add_class("-open")
        self.query_one("#search", Input).focus()

    def close(self) -> None:
        self.remove_class("-open")

    def show_result(self, place: int, n: int) -> None:
        text = f"{place + 1} of {n}  ↑ ↓" if n else "nothing found" if self.query_one("#search", Input).value else ""
        self.query_one("#search-result", Static).update(Content(text))

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Asked(event.value, 0))
