"""What commands that run a chain share: its agents as the settings name them, and its events with Ctrl-C and SIGTERM heeded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from relaylite.chain.agents import Agent, choose_agents, load_agents
from relaylite.cli.interrupts import Work
from relaylite.cli.terminal import Output
from relaylite.metrics import FINISH_CANCELLED
from relaylite.settings.settings import Settings

if TYPE_CHECKING:
    from relaylite.chain.chain import Chain
    from relaylite.events import Event


def agents_of(settings: Settings, output: Output) -> tuple[Agent, ...]:
    """The agents that the settings name. Sampling values of flags and variables replace the agents' own.

    `output` gets a notice for each plugin that is left out. Raises UsageError for a name that no agent has.
    """
    named = choose_agents(settings.agents, load_agents(settings.agents_file, output.notice))
    return tuple(agent.with_sampling(settings.forced_sampling()) for agent in named)


def events_of(chain: Chain, start: Callable[[], Iterable[Event]]) -> Work[Event]:
    """The events of the run that `start` begins. Ctrl-C and SIGTERM cancel it."""

    def work(post: Callable[[Event], None]) -> None:
        for event in start():
            post(event)

    return Work(work, chain.cancel, lambda: _kept_of(chain))


def _kept_of(chain: Chain) -> str:
    """What there is of the last message's answers when a run is stopped."""
    turns = chain.rounds[-1].turns if chain.rounds else []
    names = [turn.agent + (" (cut short)" if turn.finish_reason == FINISH_CANCELLED else "") for turn in turns]
    return f"stopped; kept: {', '.join(names)}" if names else "stopped before anything was written"
