"""What a chain takes over under each policy, and what it says where it cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.fakes import FakeEngine
from support.scripted_chain import CODE, LONG_CODE, LONG_PLAN, PLAN, chain_on, kinds, only

from relaylite.api import Relay
from relaylite.errors import NativeError, UsageError
from relaylite.events import ChainStarted, Notice
from relaylite.reuse.plan import Kind
from relaylite.reuse.policies import FULL, PREFIX, RELAY


def test_the_first_prompt_is_computed_and_downstream_ones_take_the_answers_over(engine: FakeEngine) -> None:
    engine.enqueue(LONG_PLAN, LONG_CODE, "fine")
    chain_on(engine).run("Sort.")
    assert kinds(engine, 0) == ["new"]
    relayed = [engine.tokenizer.text(plan.tokens[s.start : s.end]) for plan in engine.plans for s in plan.of(Kind.SPAN)]
    assert LONG_PLAN in relayed[0]
    assert any(LONG_PLAN in text for text in relayed[1:]) and any(LONG_CODE in text for text in relayed[1:])


def test_a_conversation_goes_on_from_its_own_prefix(engine: FakeEngine) -> None:
    engine.enqueue("plan one", "plan two")
    chain = chain_on(engine, PLAN, policy="prefix")
    chain.run("First.")
    chain.run("Second.")
    first, second = engine.plans
    assert second.count(Kind.PREFIX) >= len(first.tokens) + len("plan one")
    assert engine.exact_rows() == len(second.tokens) + len("plan two")


def test_what_a_policy_promises_holds_in_the_rows(engine: FakeEngine) -> None:
    engine.enqueue(LONG_PLAN, "ok", LONG_PLAN, "ok")
    chain = chain_on(engine, PLAN, CODE, policy="naive")
    chain.run("Sort.")
    assert engine.exact_rows() < len(engine.plans[-1].tokens)
    chain.policy = PREFIX
    chain.run("Sort.")
    assert engine.exact_rows() == len(engine.plans[-1].tokens) + 2


def test_what_is_to_be_known_of_a_model_is_said_once(engine: FakeEngine) -> None:
    engine.info = replace(engine.info, warnings=("the context is larger than the model was trained for",))
    relay = Relay(engine=engine, store_bytes=0)
    texts = [[event.text for event in only(list(relay.chain([PLAN]).stream("Sort.")), Notice)] for _ in range(2)]
    assert texts == [["the context is larger than the model was trained for"], []]


def test_full_takes_nothing_over(engine: FakeEngine) -> None:
    engine.enqueue(LONG_PLAN, "ok")
    chain_on(engine, PLAN, CODE, policy="full").run("Sort.")
    assert kinds(engine, 0) == kinds(engine, 1) == ["new"]


def test_the_policy_may_change_between_runs(engine: FakeEngine) -> None:
    chain = chain_on(engine, PLAN, policy="full")
    chain.run("Sort.")
    chain.policy = "relay:careful"
    [started] = only(list(chain.stream("Again.")), ChainStarted)
    assert started.policy == "relay:careful"
    assert engine.plans[-1].policy.fidelity == "careful"
    with pytest.raises(UsageError, match="unknown policy"):
        chain.policy = "psychic"


def test_a_model_that_cannot_relay_runs_with_prefix_and_says_why_in_every_run() -> None:
    engine = FakeEngine(relay_refusal="the model has recurrent layers")
    engine.enqueue(LONG_PLAN, "ok")
    chain = chain_on(engine, PLAN, CODE, policy="relay")
    for _ in range(2):
        events = list(chain.stream("Sort."))
        [notice] = only(events, Notice)
        assert notice.text == "relaying is off for this model: the model has recurrent layers; running with policy prefix"
        assert events[0].policy == "prefix"
    assert chain.result.to_dict()["notices"] == [notice.text]
    assert chain.policy == RELAY and all(plan.policy == PREFIX for plan in engine.plans)
    chain.policy = FULL
    assert not only(list(chain.stream("Sort.")), Notice)
    assert chain.result.to_dict()["notices"] == []


def test_rows_that_cannot_be_kept_cost_a_notice_and_no_answer(engine: FakeEngine) -> None:
    engine.enqueue("the plan")
    engine.fail("harvest", NativeError("no memory"))
    chain = chain_on(engine, PLAN)
    [notice] = only(list(chain.stream("Sort.")), Notice)
    assert "rows of plan's turn could not be kept" in notice.text and "no memory" in notice.text
    assert chain.rounds[0].turns[0].text == "the plan"
