"""Settling: what was taken over with loss becomes exact while nothing runs, and gives way to any work."""

from __future__ import annotations

import threading
import time
import weakref
from contextlib import suppress

import pytest
from support.fakes import FakeEngine

from relaylite import Agent, EngineBusy, EngineClosed, Relay
from relaylite.chain.settling import STEP
from relaylite.reuse.plan import Kind
from relaylite.reuse.row_loading import Damaged
from relaylite.reuse.rows import Rows
from relaylite.runs.runner import Run

PLAN, CODE = Agent("plan", "Make a plan."), Agent("code", "Write the code.")
LONG = "First look at both lists, then take the smaller head each time."
SOON_S = 5.0


def relay_on(engine: FakeEngine, **options: object) -> Relay:
    return Relay(engine=engine, policy="naive", store_bytes=10**8, **options)  # type: ignore[arg-type]


def test_what_was_taken_over_with_loss_becomes_exact(engine: FakeEngine) -> None:
    engine.enqueue(LONG, "the code", "plan two", "code two")
    chain = relay_on(engine).chain([PLAN, CODE])
    chain.run("Sort.")
    assert engine.plans[1].n_exact < len(engine.plans[1].tokens)
    n = chain.settle()
    assert 0 < n == sum(plan.count(Kind.NEW) for plan in engine.plans[2:])
    assert chain.settle() == 0  # nothing is left to do
    chain.run("Again.")
    last = engine.plans[-1]
    earlier = engine.tokenizer.text(last.tokens[: last.n_exact])
    assert "<|im_start|>assistant\nthe code<|im_end|>\n<|im_start|>user\n" in earlier
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


def test_a_resumed_conversation_settles_before_anything_is_said(engine: FakeEngine) -> None:
    engine.enqueue(LONG, "the code")
    saved = relay_on(engine).chain([PLAN, CODE])
    saved.run("Sort.")
    again = FakeEngine()
    resumed = relay_on(again, settle_after_s=0.01).chain_from_dict(saved.to_dict())
    deadline = time.monotonic() + SOON_S
    while len(again.plans) < 2 or again.in_prefill.is_set():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert {plan.policy.name for plan in again.plans} == {"prefix"}
    assert resumed.run("Again.").turns[0].metrics.prefix_tokens > 0


def test_a_conversation_that_is_dropped_is_not_settled_and_not_kept_alive(engine: FakeEngine) -> None:
    engine.enqueue(LONG, "the code")
    chain = relay_on(engine, settle_after_s=3600).chain([PLAN, CODE])
    chain.run("Sort.")
    timer, gone = chain._settling._timer, weakref.ref(chain)
    assert timer is not None and timer.is_alive()
    del chain
    timer.join(SOON_S)
    assert gone() is None and not timer.is_alive()
    assert [plan.policy.name for plan in engine.plans] == ["naive", "naive"]


def test_a_settling_ends_with_its_step_when_the_conversation_is_dropped(engine: FakeEngine) -> None:
    engine.enqueue("".join(f"{number} {LONG}" for number in range(20)), "the code")
    chain = relay_on(engine, settle_after_s=0.01).chain([PLAN, CODE])
    harvest = engine.harvest

    def harvest_and_shut(origin: str) -> Rows:
        if origin == "code":
            engine.prefill_gate.clear()
        return harvest(origin)

    engine.harvest = harvest_and_shut  # type: ignore[method-assign]
    chain.run("Sort.")
    timer = chain._settling._timer
    assert timer is not None and engine.in_prefill.wait(SOON_S)
    del chain
    engine.prefill_gate.set()
    timer.join(SOON_S)
    assert not timer.is_alive() and len(engine.plans) == 3


def test_measuring_puts_a_settling_off_and_does_not_call_it_off(engine: FakeEngine) -> None:
    engine.enqueue(LONG, "the code")
    chain = relay_on(engine, settle_after_s=0.05).chain([PLAN, CODE])
    chain.run("Sort.")
    engine.prefill_delay = 0.2
    chain.measure_full(0, 1)
    engine.prefill_delay = 0.0
    deadline = time.monotonic() + SOON_S
    while engine.plans[-1].policy.name != "prefix" or engine.in_prefill.is_set():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_it_stays_off_unless_asked_for(engine: FakeEngine) -> None:
    before = threading.active_count()
    relay = relay_on(engine)
    relay.chain([PLAN]).run("Sort.")
    assert threading.active_count() <= before + 1  # the prefill worker


def test_a_settling_that_is_ended_keeps_its_whole_steps(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.enqueue("".join(f"{number} {LONG}" for number in range(20)), "the code")
    relay = relay_on(engine)
    chain = relay.chain([PLAN, CODE])
    chain.run("Sort.")
    runner, put = relay._runner, relay._store.put

    def put_and_end(rows: Rows) -> None:
        put(rows)
        assert runner._run is not None
        if engine.plans[-1].count(Kind.NEW) == STEP:
            runner.cancel(runner._run)

    with monkeypatch.context() as patch:
        patch.setattr(relay._store, "put", put_and_end)
        first = chain.settle()
    ended, n_plans = engine.plans[-1], len(engine.plans)
    assert first >= ended.count(Kind.NEW) == STEP
    assert chain.settle() > 0
    resumed = next(plan for plan in engine.plans[n_plans:] if len(plan.tokens) > len(ended.tokens))
    assert resumed.count(Kind.PREFIX) == len(ended.tokens)
    assert chain.settle() == 0


def test_settling_is_no_agents_turn(engine: FakeEngine) -> None:
    engine.enqueue(LONG, "the code", "plan two", "code two")
    relay = relay_on(engine)
    chain = relay.chain([PLAN, CODE])
    chain.run("Sort.")
    assert chain.settle() > 0
    chain.run("Again.")
    assert relay._store._foresight.seen() == {"plan": {"code": 2.0}, "code": {"plan": 1.0}}


def test_a_model_that_is_closed_while_a_settling_begins(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between looking whether the model is open and taking it, nobody may close it."""
    engine.enqueue(LONG, "the code")
    relay = relay_on(engine)
    chain = relay.chain([PLAN, CODE])
    chain.run("Sort.")
    closer = threading.Thread(target=relay.close)
    check = relay._runner.check_free

    def check_and_close() -> None:
        check()
        closer.start()
        closer.join(0.1)

    monkeypatch.setattr(relay._runner, "check_free", check_and_close)
    with suppress(EngineClosed):
        chain.settle()
    closer.join(SOON_S)
    assert engine.is_closed and not closer.is_alive()


def test_of_two_runs_that_wait_for_a_settling_one_begins_and_one_is_refused(engine: FakeEngine) -> None:
    relay = relay_on(engine)
    errors: list[type[Exception]] = []
    begun = threading.Semaphore(0)
    go_on = threading.Event()

    def begin() -> None:
        stream = relay.chain([PLAN]).stream("Work.")
        try:
            next(stream)
        except EngineBusy as error:
            errors.append(type(error))
        begun.release()
        assert go_on.wait(SOON_S)
        for _ in stream:
            pass

    threads = [threading.Thread(target=begin) for _ in range(2)]
    background = Run(is_background=True)
    with relay._runner.lend(background):
        for thread in threads:
            thread.start()
        assert background.cancelled.wait(SOON_S)
        time.sleep(0.05)  # until the second one waits as well, or comes when the first has begun: it must not matter
    assert begun.acquire(timeout=SOON_S) and begun.acquire(timeout=SOON_S)
    assert errors == [EngineBusy]
    go_on.set()
    for thread in threads:
        thread.join(SOON_S)


def test_what_settling_finds_is_no_hit(engine: FakeEngine) -> None:
    """Nobody waited for it: the seconds that the store says it saved stay those of turns."""
    engine.enqueue(LONG, "the code", "plan two", "code two")
    relay = relay_on(engine)
    chain = relay.chain([PLAN, CODE])
    chain.run("Sort.")
    before = relay._store.stats()
    assert chain.settle() > 0 and before.hits > 0
    after = relay._store.stats()
    assert (after.hits, after.hit_tokens) == (before.hits, before.hit_tokens)
    chain.run("Again.")
    assert relay._store.stats().hits > after.hits


def test_without_room_for_rows_a_settling_ends_with_its_first_step(engine: FakeEngine) -> None:
    engine.enqueue("".join(f"{number} {LONG}" for number in range(20)), "the code")
    chain = Relay(engine=engine, policy="naive", store_bytes=0).chain([PLAN, CODE])
    chain.run("Sort.")
    n_plans = len(engine.plans)
    chain.settle()
    assert [plan.count(Kind.NEW) for plan in engine.plans[n_plans:]] == [STEP, STEP]  # one for each agent


def test_what_counts_is_what_was_computed_when_rows_turned_out_to_be_damaged(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.enqueue(LONG, "the code")
    relay = relay_on(engine)
    chain = relay.chain([PLAN, CODE])
    chain.run("Sort.")
    before = len(engine.plans)
    monkeypatch.setattr(relay._store, "forget", lambda damaged: relay._store.clear())
    engine.fail("prefill", Damaged("a.rows", ValueError("damaged")))
    n = chain.settle()
    carried_out = engine.plans[before + 1 :]
    assert carried_out[0].count(Kind.NEW) > engine.plans[before].count(Kind.NEW)
    assert n == sum(plan.count(Kind.NEW) for plan in carried_out)


def test_work_that_arrives_while_rows_are_read_ends_a_settling(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.enqueue(LONG, "the code")
    relay = relay_on(engine)
    chain = relay.chain([PLAN, CODE])
    chain.run("Sort.")
    runner, harvest, kept = relay._runner, engine.harvest, []

    def harvest_while_work_arrives(origin: str, **options: bool) -> Rows:
        assert runner._run is not None
        runner.cancel(runner._run)
        return harvest(origin, **options)

    monkeypatch.setattr(engine, "harvest", harvest_while_work_arrives)
    monkeypatch.setattr(relay._store, "put", kept.append)
    assert chain.settle() == 0 and not kept
