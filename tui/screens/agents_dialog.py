"""The chain's agents: add, remove, reorder, edit instructions, what each reads and how it samples, and where the chain pauses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Input, OptionList, Select, Static
from textual.widgets.option_list import Option

from relaylite.chain.agents import READS, Agent
from relaylite.errors import UsageError
from relaylite.tui import look
from relaylite.tui.sampling_values import choose_for_one, otherwise
from relaylite.tui.screens.dialog import ChoiceDialog, Dialog
from relaylite.tui.widgets.chain_strip import reads_of
from relaylite.tui.widgets.fields import LineField, TextField
from relaylite.tui.widgets.sampling_fields import SamplingFields


@dataclass(frozen=True, slots=True)
class ChainChoice:
    """The agents in order, and the places after which the chain pauses."""

    agents: tuple[Agent, ...]
    pauses: frozenset[int]


class AgentsDialog(Dialog[ChainChoice]):
    """The list at the left, the selected agent at the right. Apply takes the changes over; Esc drops them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+d", "done", "Apply", priority=True),
        Binding("ctrl+g", "edit_outside", "Editor", priority=True),
        Binding("a", "add", "Add"),
        Binding("delete,backspace", "remove", "Remove"),
        Binding("shift+up,u", "shift(-1)", "Up"),
        Binding("shift+down,d", "shift(1)", "Down"),
        Binding("space", "pause", "Pause after"),
        Binding("k", "keep", "Keep"),
    ]
    title_text = "Agents"
    hint = "Ctrl+D applies · Esc leaves · A adds · Del removes · U/D moves · Space pauses · K keeps"

    def __init__(
        self,
        agents: Sequence[Agent],
        pauses: frozenset[int],
        known: Mapping[str, Agent],
        selected: int = 0,
        in_force: Mapping[str, Any] | None = None,
        keep: Callable[[Sequence[Agent]], None] = lambda _: None,
    ) -> None:
        """`known`: agents that can be added; `in_force`: sampling values of agents that have none of their own; `keep` writes a file."""
        super().__init__()
        self._otherwise = otherwise(in_force or {})
        self._rows = [(agent, index in pauses) for index, agent in enumerate(agents)]
        self._known, self._write = known, keep
        self._selected = min(selected, len(agents) - 1)

    def compose(self) -> ComposeResult:
        with self.frame():
            with Horizontal():
                yield OptionList(id="rows")
                with Vertical(id="agent"):
                    yield LineField(placeholder="name", id="name", compact=True)
                    yield Select(
                        ((reads_of(Agent("x", "x", reads=reads)), reads) for reads in READS), allow_blank=False, id="reads", compact=True
                    )
                    yield SamplingFields()
                    yield TextField(id="instructions")
            with Horizontal(classes="buttons"):
                yield Button("Add", id="add", compact=True)
                yield Button("Remove", id="remove", compact=True)
                yield Button("Up", id="up", compact=True)
                yield Button("Down", id="down", compact=True)
                yield Button("Pause after", id="pause", compact=True)
                yield Button("Keep", id="keep", compact=True)
                yield Button("Apply", id="done", variant="primary", compact=True)
            yield Static("", classes="error")

    def on_mount(self) -> None:
        self._show(self._selected)
        self.query_one("#rows").focus()

    def _show(self, selected: int) -> None:
        """Fill the list anew and select a row."""
        options = self.query_one("#rows", OptionList)
        options.clear_options()
        options.add_options(Option(self._line(index)) for index in range(len(self._rows)))
        self._selected = max(0, min(selected, len(self._rows) - 1))
        options.highlighted = self._selected if self._rows else None
        self._fill()

    def _fill(self) -> None:
        if self._rows:
            agent = self._rows[self._selected][0]
            self.query_one("#name", Input).value = agent.name
            self.query_one("#reads", Select).value = agent.reads
            self.query_one(SamplingFields).show(agent.sampling, self._otherwise)
            self.query_one("#instructions", TextField).load_text(agent.instructions)

    def _line(self, index: int) -> Content:
        agent, pauses = self._rows[index]
        color = look.agent_color(agent, index)
        return Content.assemble(
            (f"{index + 1} ", "$muted"), (agent.name, f"bold {color}"), (f" {look.PAUSE_SIGN}" if pauses else "", "$warning")
        )

    def _keep(self) -> bool:
        """Take the fields over into the selected row; whether they make a valid agent."""
        if not self._rows:
            return True
        agent, pauses = self._rows[self._selected]
        values: dict[str, Any] = {
            "name": self.query_one("#name", Input).value.strip(),
            "reads": self.query_one("#reads", Select).value,
            "instructions": self.query_one("#instructions", TextField).text,
        }
        try:
            values["sampling"] = choose_for_one(agent, self.query_one(SamplingFields).values())
            self._rows[self._selected] = dataclasses.replace(agent, **values), pauses
        except UsageError as error:
            self.query_one(".error", Static).update(Content(str(error)))
            return False
        self.query_one(".error", Static).update("")
        return True

    @on(OptionList.OptionHighlighted, "#rows")
    def _select(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_index == self._selected:
            return
        if self._keep():
            self._selected = event.option_index
            self._fill()
        else:
            self.query_one("#rows", OptionList).highlighted = self._selected

    @on(OptionList.OptionSelected, "#rows")
    def _edit(self) -> None:
        self.query_one("#instructions").focus()

    @on(Button.Pressed)
    def _press(self, event: Button.Pressed) -> None:
        actions = {
            "add": self.action_add,
            "remove": self.action_remove,
            "pause": self.action_pause,
            "keep": self.action_keep,
            "done": self.action_done,
        }
        name = event.button.id or ""
        if name in actions:
            actions[name]()
        else:
            self.action_shift(-1 if name == "up" else 1)

    def action_add(self) -> None:
        choices = [(name, name, agent.instructions.split(". ")[0]) for name, agent in self._known.items()]
        self.app.push_screen(ChoiceDialog("Add an agent", choices, ""), self._add)

    def _add(self, name: str | None) -> None:
        if name is not None and self._keep():
            self._rows.insert(self._selected + 1, (self._known[name], False))
            self._show(self._selected + 1)

    def action_remove(self) -> None:
        if len(self._rows) > 1:
            del self._rows[self._selected]
            self._show(self._selected)

    def action_shift(self, step: int) -> None:
        target = self._selected + step
        if self._keep() and 0 <= target < len(self._rows):
            self._rows.insert(target, self._rows.pop(self._selected))
            self._show(target)

    def action_pause(self) -> None:
        if self._keep():
            agent, pauses = self._rows[self._selected]
            self._rows[self._selected] = agent, not pauses
            self._show(self._selected)

    def action_keep(self) -> None:
        """Write the agents as they stand here into the user's file."""
        if self._keep():
            self._write([agent for agent, _ in self._rows])

    def action_edit_outside(self) -> None:
        self.query_one("#instructions", TextField).edit_outside()

    def action_done(self) -> None:
        if self._keep():
            pauses = frozenset(index for index, (_, does) in enumerate(self._rows) if does)
            self.answer(ChainChoice(tuple(agent for agent, _ in self._rows), pauses))
