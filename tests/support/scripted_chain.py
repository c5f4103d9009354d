"""What tests of chains on the scripted engine share: agents, answers long enough to relay, and what the engine was asked."""

from __future__ import annotations

from collections.abc import Iterable

from relaylite.api import Relay
from relaylite.chain.agents import Agent
from relaylite.chain.chain import Chain
from relaylite.events import Event, TurnFinished
from support.fakes import FakeEngine

PLAN = Agent("plan", "Make a plan.")
CODE = Agent("code", "Write the code.")
REVIEW = Agent("review", "Review the code.")
LONG_PLAN = "First look at both lists, then take the smaller head each time."
LONG_CODE = "def merge(a, b): return sorted(a + b)  # the short way to do it"
END = "<|im_end|>\n<|im_start|>assistant\n"


def chain_on(engine: FakeEngine, *agents: Agent, policy: str = "naive", **sampling: object) -> Chain:
    return Relay(engine=engine, policy=policy, sampling=sampling, store_bytes=10**8).chain(agents or (PLAN, CODE, REVIEW))


def prompts(engine: FakeEngine) -> list[str]:
    return [engine.tokenizer.text(plan.tokens) for plan in engine.plans]


def kinds(engine: FakeEngine, run: int = -1) -> list[str]:
    return [segment.kind.value for segment in engine.plans[run].segments]


def only(events: Iterable[Event], kind: type) -> list[Event]:
    return [event for event in events if isinstance(event, kind)]


def finished(events: Iterable[Event]) -> list:
    return [event.turn for event in events if isinstance(event, TurnFinished)]
