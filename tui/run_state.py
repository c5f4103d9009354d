"""`RunState`: what the app works with and what runs now. Values only; reports and actions change it, widgets show it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from relaylite.chain.agents import Agent, unanswered
from relaylite.chain.attachments import Attachment
from relaylite.engine.interface import ModelInfo
from relaylite.reuse.policies import Policy
from relaylite.tui import look
from relaylite.tui.conversation import FINISHED, Conversation, TurnRecord


@dataclass(slots=True, eq=False)
class RunState:
    """`known` are all agents by name, `agents` those of the chain; after the agents at `pauses` the chain pauses."""

    agents: tuple[Agent, ...]
    policy: Policy
    known: Mapping[str, Agent]
    files: tuple[Attachment, ...] = ()  # go with the next message
    pauses: frozenset[int] = frozenset()
    sampling: Mapping[str, Any] = field(default_factory=dict)  # chosen here or in the conversation, as `Chain.chosen`
    conversation: Conversation = field(default_factory=Conversation)
    info: ModelInfo | None = None  # None while no model is open
    model: str = ""  # what the user called the one that is open, or was last
    is_opening: bool = False
    is_measuring: bool = False
    measuring_since: float = 0.0
    measured_turn: TurnRecord | None = None
    compared_with: str = ""  # the policy that an answer is written under for comparison; "" while a full prefill is measured
    n_compared: int = 0  # tokens of it that are written
    running_since: float | None = None  # `time.monotonic` when the run began; None while nothing runs
    current: TurnRecord | None = None  # the latest turn of the run
    unsent: list[str] = field(default_factory=list)  # messages on their way to the chain
    attached: tuple[str, ...] = ()  # names of the files that go with the message on its way
    session: str = ""  # the name that the conversation is kept under; "" while it is not
    is_read_only: bool = False  # another relaylite has the session open

    @property
    def is_busy(self) -> bool:
        """Whether agents are at work."""
        return self.running_since is not None

    @property
    def is_working(self) -> bool:
        """Whether there is something that Esc can stop."""
        return self.is_busy or self.is_measuring or self.is_opening

    @property
    def running(self) -> TurnRecord | None:
        """The turn that goes on now."""
        return self.current if self.current is not None and self.current.state not in FINISHED else None

    @property
    def relay_refusal(self) -> str | None:
        """Why the open model cannot relay."""
        return self.info.relay_refusal if self.info is not None else None

    @property
    def can_resume(self) -> bool:
        """Whether agents have not answered the last message yet."""
        return bool(self.missing)

    @property
    def missing(self) -> list[int]:
        """The places of the agents that have not answered the last message."""
        rounds = self.conversation.rounds
        return [place for place, _ in unanswered(self.agents, rounds[-1].names)] if rounds else []

    @property
    def measured_share(self) -> float | None:
        """How much of the estimated time of the full prefill that is measured has passed; None without an estimate."""
        full = self.measured_turn.full_prefill if self.measured_turn is not None else None
        return 1000 * (time.monotonic() - self.measuring_since) / full[0] if full is not None else None

    @property
    def invitation(self) -> str:
        """What the empty input says: whom a message goes to, and what Enter alone does."""
        if self.is_busy or not self.can_resume:
            return "Message to the agents"
        return f"Enter goes on with {self.agents[self.missing[0]].name}; or a message to the agents"

    def begin(self) -> None:
        """A run starts."""
        self.running_since, self.current = time.monotonic(), None

    def next_pause(self, index: int) -> int | None:
        """The first agent from `index` on after which the chain pauses; the last agent's end is no pause."""
        return min((place for place in self.pauses if index <= place < len(self.agents) - 1), default=None)

    def color_at(self, name: str, index: int) -> str:
        """The colour of the agent of that name at that place of the chain."""
        agent = self.agents[index] if index < len(self.agents) and self.agents[index].name == name else self.known.get(name)
        return look.agent_color(agent, index)

    def color_of(self, name: str) -> str:
        """The colour of the first agent of that name."""
        return self.color_at(name, next((i for i, agent in enumerate(self.agents) if agent.name == name), 0))
