"""`Foresight`: the chance that the next turns ask for certain rows, by their `Uses`: who asked for them so far.

`Tiers` weighs rows by that chance. Two things are learnt: which agent follows which, and in what share of its turns an agent asks for
certain rows. Both are counts with a prior, so that little evidence says little. Pure arithmetic: no rows, no files, no clock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

FORGETTING = 0.7  # weight of a turn against the same agent's next one
HORIZON = 0.6  # weight of the next turn against the one before it
PRIOR_TURNS = 1.0  # turns that the belief about new rows weighs as much as
PRIOR_OWN, PRIOR_OTHER = 0.6, 0.1  # the share of turns of the agent that wrote them, and of any other, that ask for new rows
PRIOR_FOLLOWS = 0.2  # turns in which any agent is believed to have followed any other


@dataclass(slots=True)
class Uses:
    """How often each agent's turns asked for certain rows; older turns weigh less. `Foresight` counts the turns of each agent."""

    owner: str = ""
    since: dict[str, int] = field(default_factory=dict)  # agent → its turns when the rows came
    hits: dict[str, tuple[float, int]] = field(default_factory=dict)  # agent → weight of its hits, as of which of its turns

    def copy(self) -> Uses:
        return Uses(self.owner, dict(self.since), dict(self.hits))


class Foresight:
    """What the turns so far say about the next ones."""

    def __init__(self) -> None:
        self.turns: dict[str, int] = defaultdict(int)
        self.follows: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._seen: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.last: str | None = None

    def learn(self, follows: Mapping[str, Mapping[str, float]]) -> None:
        """Add what earlier processes saw."""
        for agent, after in follows.items():
            for successor, n in after.items():
                self.follows[agent][successor] += n

    def seen(self) -> dict[str, dict[str, float]]:
        """How often which agent followed which, without what was learnt from earlier processes."""
        return {agent: dict(after) for agent, after in self._seen.items()}

    def finish_turn(self, agent: str) -> None:
        """A turn of `agent` is over; hits are noted after it."""
        if self.last is not None:
            self.follows[self.last][agent] += 1
            self._seen[self.last][agent] += 1
        self.turns[agent] += 1
        self.last = agent

    def new_uses(self) -> Uses:
        """The uses of rows that the last turn left."""
        return Uses(self.last or "", dict(self.turns))

    def note_hit(self, uses: Uses) -> None:
        """The last turn asked for rows with these `uses`."""
        if self.last is None:
            return
        now = self.turns[self.last]
        weight, then = uses.hits.get(self.last, (0.0, now))
        uses.hits[self.last] = (weight * FORGETTING ** (now - then) + 1, now)

    def chance(self, uses: Uses, soon: dict[str, float]) -> float:
        """How often the next turns will ask for rows with these `uses`; `soon` is of `visits`."""
        return sum(visits * self._rate(uses, agent) for agent, visits in soon.items())

    def visits(self) -> dict[str, float]:
        """For each agent, the expected number of its turns from now on, nearer ones weighing more."""
        if self.last is None:
            return {}
        agents = sorted({*self.turns, *self.follows})
        n = len(agents)
        counts = np.array([[self.follows[a][b] + PRIOR_FOLLOWS / n for b in agents] for a in agents])
        steps = counts / counts.sum(axis=1, keepdims=True)
        ahead = np.linalg.inv(np.eye(n) - HORIZON * steps) - np.eye(n)  # sum of (HORIZON · steps)^k over k ≥ 1
        return dict(zip(agents, ahead[agents.index(self.last)].tolist(), strict=True))

    def _rate(self, uses: Uses, agent: str) -> float:
        """The share of this agent's turns that ask for the rows."""
        now = self.turns.get(agent, 0)
        n = now - uses.since.get(agent, 0)
        seen = (1 - FORGETTING**n) / (1 - FORGETTING)
        weight, then = uses.hits.get(agent, (0.0, now))
        prior = PRIOR_OWN if agent == uses.owner else PRIOR_OTHER
        return (weight * FORGETTING ** (now - then) + prior * PRIOR_TURNS) / (seen + PRIOR_TURNS)
