"""Settling: what was taken over with loss becomes exact while nothing runs, and gives way to any work."""

from __future__ import annotations

import threading
import time

import pytest
from fakes import FakeEngine

from relaylite import Agent, EngineBusy, EngineClosed, Relay
from relaylite.plan import Kind

PLAN, CODE = Agent("plan", "Make a plan."), Agent("code", "Write the code.")
LONG = "First look at both lists, then take the smaller head each time."
SOON_S = 5.0


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


def relay_on(engine: FakeEngine, **options: object) -> Relay:
    return Relay(engine=engine, policy="naive", store_bytes=10**8, **options)  # type: ignore[arg-type]


def test_a_past_taken_over_with_loss_becomes_exact(engine: FakeEngine) -> None:
    engine.enqueue(LONG, "the code", "plan two", "code two")
    chain = relay_on(engine).chain([PLAN, CODE])
    chain.run("Sort.")
    assert engine.plans[1].n_exact < len(engine.plans[1].tokens)
    n = chain.settle()
    assert 0 < n == sum(plan.count(Kind.NEW) for plan in engine.plans[2:])
    assert chain.settle() == 0  # nothing is left to do
    chain.run("Again.")
    last = engine.plans[-1]
    past = engine.tokenizer.text(last.tokens[: last.n_exact])
    assert "<|im_start|>assistant\nthe code<|im_end|>\n<|im_start|>user\n" in past
    assert engine.exact_rows() >= last.n_exact


def test_without_settling_the_loss_stays(engine: FakeEngine) -> None:
    engine.enqueue(LONG, "the code", "plan two", "code two")
    chain = relay_on(engine).chain([PLAN, CODE])
    chain.run("Sort.")
    chain.run("Again.")
    assert engine.exact_rows() < 100


def test_work_that_arrives_ends_a_settling(engine: FakeEngine) -> None:
    engine.enqueue(LONG, "the code")
    relay = relay_on(engine)
    chain = relay.chain([PLAN, CODE])
    chain.run("Sort.")
    engine.prefill_gate.clear()
    settled: list[int] = []
    thread = threading.Thread(target=lambda: settled.append(chain.settle()))
    thread.start()
    assert engine.in_prefill.wait(SOON_S)
    stream = relay.chain([PLAN]).stream("Other work.")
    next(stream)
    thread.join(SOON_S)
    assert settled == [0]
    engine.prefill_gate.set()
    assert [type(event).__name__ for event in stream][-1] == "ChainFinished"


def test_a_settling_does_not_disturb_a_run(engine: FakeEngine) -> None:
    chain = relay_on(engine).chain([PLAN])
    stream = chain.stream("Sort.")
    next(stream)
    with pytest.raises(EngineBusy):
        chain.settle()
    assert [type(event).__name__ for event in stream][-1] == "ChainFinished"


def test_a_closed_model_is_not_settled_and_closing_ends_a_settling(engine: FakeEngine) -> None:
    engine.enqueue(LONG, "the code")
    relay = relay_on(engine)
    chain = relay.chain([PLAN, CODE])
    chain.run("Sort.")
    engine.prefill_gate.clear()
    thread = threading.Thread(target=chain.settle)
    thread.start()
    assert engine.in_prefill.wait(SOON_S)
    relay.close()
    thread.join(SOON_S)
    assert engine.is_closed and not thread.is_alive()
    with pytest.raises(EngineClosed):
        chain.settle()


def test_it_begins_by_itself_when_nothing_ran_for_a_while(engine: FakeEngine) -> None:
    engine.enqueue(LONG, "the code")
    chain = relay_on(engine, settle_after_s=0.01).chain([PLAN, CODE])
    chain.run("Sort.")
    deadline = time.monotonic() + SOON_S
    while len(engine.plans) < 3 or engine.in_prefill.is_set():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert engine.plans[2].policy.name == "prefix"
    assert chain.run("Again.").text == "Understood."


def test_it_stays_off_unless_asked_for(engine: FakeEngine) -> None:
    before = threading.active_count()
    relay = relay_on(engine)
    relay.chain([PLAN]).run("Sort.")
    assert threading.active_count() <= before + 1  # the prefill worker
