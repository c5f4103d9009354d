"""Find text in the conversation: one line that opens above the input."""

from __future__ import annotations

from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from relaylite.tui.widgets.fields import LineField


class SearchBar(Horizontal):
    """Posts `Asked`; who finds calls `go`."""

    class Asked(Message):
        """`step`: 0 for the text as it is typed, 1 for the next place, -1 for the one before."""

        def __init__(self, text: str, step: int) -> None:
            super().__init__()
            self.text, self.step = text, step

    class _Line(LineField):
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
        self._place = 0  # among the hits

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

    def go(self, step: int, n: int) -> int:
        """Go `step` on among `n` hits, with step 0 to the last one, and show which it is. Its place, from 0; -1 if there is none."""
        self._place = (self._place + step) % n if step and n else n - 1
        text = f"{self._place + 1} of {n}  ↑ ↓" if n else "nothing found" if self.query_one("#search", Input).value else ""
        self.query_one("#search-result", Static).update(Content(text))
        return self._place

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Asked(event.value, 0))
