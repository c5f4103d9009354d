"""While an agent writes, the next one's past is read from the disk."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from fakes import FakeEngine

from relaylite import Agent, Relay
from relaylite.events import TextDelta
from relaylite.rows import Tokens

PLAN, CODE = Agent("plan", "Make a plan."), Agent("code", "Write the code.")
SOON_S = 5.0


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


def test_the_next_agents_prompt_is_read_ahead_before_this_one_has_ended(engine: FakeEngine, tmp_path: Path) -> None:
    relay = Relay(engine=engine, policy="naive", store_bytes=10**8, store_folder=tmp_path)
    asked: list[str] = []
    is_asked = threading.Event()

    def note(tokens: Tokens) -> None:
        asked.append(engine.tokenizer.text(tokens))
        is_asked.set()

    relay._store.prefetch = note  # type: ignore[method-assign]
    stream = relay.chain([PLAN, CODE]).stream("Sort.")
    while not isinstance(next(stream), TextDelta):
        pass
    assert is_asked.wait(SOON_S) and len(engine.plans) == 1
    for _ in stream:
        pass
    [text] = asked  # nobody comes after the last agent
    assert CODE.instructions in text and "Sort." in text


def test_what_was_read_ahead_is_what_the_next_agent_takes_over(engine: FakeEngine, tmp_path: Path) -> None:
    with Relay(engine=engine, policy="naive", store_bytes=10**8, store_folder=tmp_path) as first:
        first.chain([PLAN, CODE]).run("Sort.")
    again = FakeEngine()
    with Relay(engine=again, policy="naive", store_bytes=10**8, store_folder=tmp_path) as relay:
        [_, code] = relay.chain([PLAN, CODE]).run("Sort.").turns
    assert code.metrics.computed_tokens == 1


def test_without_a_disk_nothing_is_read_ahead(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    relay = Relay(engine=engine, policy="naive", store_bytes=10**8)
    monkeypatch.setattr(relay._store, "prefetch", lambda tokens: pytest.fail("there is nothing to read"))
    relay.chain([PLAN, CODE]).run("Sort.")
