"""How all agents sample: temperature, max tokens and seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Button, Input, Static

from relaylite.chain.agents import Agent
from relaylite.errors import UsageError
from relaylite.tui import sampling_values
from relaylite.tui.screens.dialog import Dialog
from relaylite.tui.widgets.sampling_fields import SamplingFields

NOTE = (
    "From the next answer on, for all agents: what is changed here takes the place of their own values. "
    "Empty: the default of each role. Temperature 0 always takes the likeliest token; max tokens -1 writes until the context is full."
)


class SamplingDialog(Dialog[Mapping[str, Any]]):
    """Gives the values that were changed, by name; None for one that was emptied."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+d", "done", "Apply", priority=True)]
    title_text = "Sampling"
    hint = "Ctrl+D or Enter applies · Esc leaves"

    def __init__(self, agents: Sequence[Agent], in_force: Mapping[str, Any]) -> None:
        super().__init__()
        self._values = sampling_values.of_all(agents, in_force)
        self._differing = sampling_values.differing(agents, in_force)
        self._before: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        with self.frame():
            yield SamplingFields()
            yield Static(Content("\n".join((NOTE, *(f"They differ: {line}" for line in self._differing)))), classes="note")
            yield Button("Apply", id="done", variant="primary", compact=True)
            yield Static("", classes="error")

    def on_mount(self) -> None:
        fields, default = self.query_one(SamplingFields), sampling_values.otherwise({})
        fields.show(self._values, {name: text if name in self._values else "they differ" for name, text in default.items()})
        self._before = fields.texts()
        fields.query(Input).first().focus()

    @on(Input.Submitted)
    @on(Button.Pressed, "#done")
    def action_done(self) -> None:
        fields = self.query_one(SamplingFields)
        try:
            values = fields.values()
        except UsageError as error:
            self.query_one(".error", Static).update(Content(str(error)))
            return
        self.answer({name: values[name] for name, text in fields.texts().items() if text != self._before[name]})
