"""What stands in the transcript while nothing was said: what to do, tasks to try, and a note about the model."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

ABOUT = """\
Type a message below; the agents answer it in turn.

Each agent reads the message and what the agents before it wrote. What an agent wrote, if it has 32 tokens or more, \
is not computed again for the next one: its rows are taken over, moved, and repaired where the new prompt changes them.

F1 shows all keys, Ctrl+P all commands. Or try one of these (Tab, then Enter; or a click):"""
TASKS = (
    "Write a Python function that merges two sorted lists.",
    "What is 17% of 2,340? Show every step.",
    "Explain to a beginner why the sky is blue, in five sentences.",
)


class Sample(Static, can_focus=True):
    """A task to try."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("enter,space", "choose", "Take it into the input"),
        ("up", "app.focus_previous", "Before"),
        ("down", "app.focus_next", "After"),
    ]

    class Chosen(Message):
        """The task belongs into the input."""

        def __init__(self, task: str) -> None:
            super().__init__()
            self.task = task

    def __init__(self, task: str) -> None:
        super().__init__(Content(f"▸ {task}"))
        self.wording = task

    def action_choose(self) -> None:
        self.post_message(self.Chosen(self.wording))

    def on_click(self) -> None:
        self.action_choose()


class Welcome(Vertical):
    """`note`: a line about the model, "" for none."""

    def __init__(self, note: str) -> None:
        super().__init__(id="welcome")
        self._note = note

    def compose(self) -> ComposeResult:
        yield Static(Content(ABOUT))
        for task in TASKS:
            yield Sample(task)
        yield Static(Content(self._note), id="model-note")

    def show_note(self, note: str) -> None:
        self._note = note
        for line in self.query("#model-note").results(Static):
            line.update(Content(note))
