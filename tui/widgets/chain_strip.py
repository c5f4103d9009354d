"""The chain in one line: who works, who waits, who reads whom; at the right the policy. Click to change."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, HorizontalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from relaylite.chain.agents import Agent
from relaylite.reuse.policies import Policy
from relaylite.terminal_text import fit_for_terminal
from relaylite.tui import look
from relaylite.tui.conversation import State


class AgentChip(Static):
    """One agent: what it reads, its name, its state."""

    def __init__(self, agent: Agent, index: int) -> None:
        super().__init__()
        self.agent, self.index = agent, index
        self.state: State = "waiting"
        self.pauses = False
        self.tooltip = Content(f"{agent.name} reads {reads_of(agent)}\n{fit_for_terminal(agent.instructions[:160])}")

    def show(self, state: State, pauses: bool) -> None:
        self.state, self.pauses = state, pauses
        self.update(self._content())
        if state in ("reusing", "repairing", "reading", "writing") and self.is_attached:
            self.scroll_visible(animate=False)

    def on_mount(self) -> None:
        self.show(self.state, self.pauses)

    def _content(self) -> Content:
        color, state = look.STATE_COLORS[self.state], self.state
        joint = f" {look.READS_SIGNS[self.agent.reads]} " if self.index else ""
        word = f" {state}" if state not in ("waiting", "done") else ""
        return Content.assemble(
            (joint, "$muted"),
            (f"{look.STATE_SIGNS[state]} ", color),
            (self.agent.name, f"bold {look.agent_color(self.agent, self.index)}"),
            (word, color),
            (f" {look.PAUSE_SIGN}" if self.pauses else "", "$warning"),
        )


class ChainStrip(Horizontal):
    """Chips in order and the policy."""

    class Asked(Message):
        """A click: on the agent at `index`, or on the policy (None)."""

        def __init__(self, index: int | None) -> None:
            super().__init__()
            self.index = index

    def __init__(self, agents: Sequence[Agent], policy: Policy) -> None:
        super().__init__(id="chain")
        self._agents, self._policy = tuple(agents), policy

    def compose(self) -> ComposeResult:
        with HorizontalScroll(id="chips", can_focus=False):
            for index, agent in enumerate(self._agents):
                yield AgentChip(agent, index)
        yield Static(self._policy_content(), id="policy")

    @property
    def chips(self) -> list[AgentChip]:
        return list(self.query(AgentChip))

    @property
    def states(self) -> list[State]:
        return [chip.state for chip in self.chips]

    def set_state(self, index: int, state: State) -> None:
        chips = self.chips
        if index < len(chips):
            chips[index].show(state, chips[index].pauses)

    def reset(self, places: Sequence[int] | None = None) -> None:
        """The agents at those places wait; all of them if None."""
        for chip in self.chips:
            if places is None or chip.index in places:
                chip.show("waiting", chip.pauses)

    def set_pauses(self, indices: set[int]) -> None:
        for chip in self.chips:
            chip.show(chip.state, chip.index in indices)

    def set_policy(self, policy: Policy, refusal: str | None = None) -> None:
        self._policy = policy
        widget = self.query_one("#policy", Static)
        widget.update(self._policy_content(refusal))
        widget.tooltip = Content(fit_for_terminal(refusal or "") or "How much is reused; click or F5 to change")

    async def set_agents(self, agents: Sequence[Agent]) -> None:
        self._agents = tuple(agents)
        row = self.query_one("#chips")
        await row.remove_children()
        await row.mount_all([AgentChip(agent, index) for index, agent in enumerate(agents)])

    def _policy_content(self, refusal: str | None = None) -> Content:
        note = (" (prefix only)", "$warning") if refusal and self._policy.use_spans else ("", "")
        return Content.assemble(("policy ", "$muted"), (self._policy.label, "bold $foreground"), note)

    def on_click(self, event: events.Click) -> None:
        widget = event.widget
        if isinstance(widget, AgentChip):
            self.post_message(self.Asked(widget.index))
        elif widget is not None and widget.id == "policy":
            self.post_message(self.Asked(None))


def reads_of(agent: Agent) -> str:
    return {"all": "the task and all answers before it", "previous": "the task and the answer before it", "task": "the task only"}[
        agent.reads
    ]
