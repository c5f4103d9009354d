"""While an agent writes, what the disk holds of the next one's prompt is read."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.fakes import FakeEngine

from relaylite import Agent, Relay, UsageError
from relaylite.events import TextDelta
from relaylite.prompt.builder import Prompt
from relaylite.reuse.rows import Tokens
from relaylite.store import Store

PLAN, CODE = Agent("plan", "Make a plan."), Agent("code", "Write the code.")
SOON_S = 5.0


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


ENDING = """
import atexit, sys, threading, time
from pathlib import Path
from support.fakes import FakeEngine
from relaylite import Agent, Relay
from relaylite.events import TextDelta

AGENTS = [Agent("plan", "Make a plan."), Agent("code", "Write the code.")]
relay = Relay(engine=FakeEngine(), policy="naive", store_bytes=10**8, store_folder=Path(sys.argv[1]))
relay.chain(AGENTS).run("Sort.")
relay.close()
relay = Relay(engine=FakeEngine(), policy="naive", store_bytes=10**8, store_folder=Path(sys.argv[1]))
prefetch, is_ending, has_ended = relay._store.prefetch, threading.Event(), threading.Event()

def prefetch_late(tokens):
    try:
        is_ending.wait()
        prefetch(tokens)
        print("was read")
    finally:
        has_ended.set()

relay._store.prefetch = prefetch_late
stream = relay.chain(AGENTS).stream("Sort.")
while not isinstance(next(stream), TextDelta):
    pass
stream.close()
atexit.register(lambda: (is_ending.set(), has_ended.wait(), time.sleep(0.2)))
"""


def test_a_process_that_ends_meanwhile_ends_quietly(tmp_path: Path) -> None:
    """When Python goes down it starts no more threads, which checking a file needs, and daemon threads go on for a moment."""
    paths = os.pathsep.join(path for path in sys.path if path)
    ended = subprocess.run(
        [sys.executable, "-c", ENDING, str(tmp_path)], capture_output=True, text=True, timeout=60, env=os.environ | {"PYTHONPATH": paths}
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.parametrize("has_disk", [True, False])
def test_without_a_disk_nothing_is_read_ahead(has_disk: bool, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    relay = Relay(engine=engine, policy="naive", store_bytes=10**8, store_folder=tmp_path if has_disk else None)
    was_asked = threading.Event()
    monkeypatch.setattr(relay._store, "prefetch", lambda _: was_asked.set())
    relay.chain([PLAN, CODE]).run("Sort.")
    assert was_asked.wait(SOON_S if has_disk else 0.1) is has_disk


def test_a_prompt_that_cannot_be_made_is_not_read_ahead(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own turn says what is wrong."""
    monkeypatch.setattr(Store, "has_disk", True)
    monkeypatch.setattr(relay._store, "prefetch", lambda _: pytest.fail("there is nothing to read"))

    def fail() -> Prompt:
        raise UsageError("no such agent")

    relay._runner.read_ahead(fail)
