"""Chains at the end of the context, and requests that are refused."""

from __future__ import annotations

import pytest
from support.fakes import FakeEngine
from support.scripted_chain import CODE, PLAN, chain_on, finished, prompts

from relaylite.chain.agents import Agent
from relaylite.errors import ContextOverflow, UsageError
from relaylite.events import Notice


@pytest.mark.parametrize(
    ("max_tokens", "text", "reason"), [(0, "", "length"), (1, "a", "length"), (3, "abc", "length"), (4, "abc", "stop")]
)
def test_max_tokens_ends_an_answer(engine: FakeEngine, max_tokens: int, text: str, reason: str) -> None:
    engine.enqueue("abc")
    [turn] = chain_on(engine, PLAN, max_tokens=max_tokens).run("Sort.").turns
    assert (turn.text, turn.finish_reason) == (text, reason)


def test_an_answer_without_limit_ends_where_the_context_does() -> None:
    engine = FakeEngine(n_ctx=128)
    engine.enqueue("x" * 500)
    [turn] = chain_on(engine, PLAN, max_tokens=-1).run("Sort.").turns
    assert turn.finish_reason == "length"
    assert turn.metrics.context_used == 128 + 1  # the last token needs no place


def test_a_task_that_cannot_fit_is_refused_before_anything_runs() -> None:
    engine = FakeEngine(n_ctx=256)
    chain = chain_on(engine, PLAN, CODE, max_tokens=100)
    with pytest.raises(ContextOverflow, match=r"^agent plan: its prompt of 191 tokens and 100 tokens of answer do not fit the context"):
        chain.stream("x" * 150)
    assert not engine.plans and not chain.rounds


def test_an_agent_further_down_that_cannot_fit_is_found_before_the_first_one_runs() -> None:
    engine = FakeEngine(n_ctx=256)
    with pytest.raises(ContextOverflow, match=r"^agent big: "):
        chain_on(engine, PLAN, Agent("big", "y" * 200), max_tokens=50).stream("Sort.")
    assert not engine.plans


def test_max_tokens_beyond_the_context_are_refused(engine: FakeEngine) -> None:
    with pytest.raises(ContextOverflow, match="and 5000 tokens of answer do not fit the context of 4096"):
        chain_on(engine, PLAN, max_tokens=5000).stream("Sort.")


def test_answers_that_fill_the_context_stop_the_chain_and_leave_it_usable() -> None:
    engine = FakeEngine(n_ctx=256)
    engine.enqueue("x" * 100, "short", "shorter")
    chain = chain_on(engine, PLAN, CODE, max_tokens=100)
    with pytest.raises(ContextOverflow, match=r"^agent code: "):
        chain.run("Sort.")
    assert [turn.agent for turn in chain.rounds[0].turns] == ["plan"]
    chain.edit(0, 0, "a short plan")
    assert [turn.text for turn in finished(chain.resume())] == ["short"]


def test_a_conversation_that_outgrows_the_context_drops_its_oldest_rounds_and_says_so() -> None:
    engine = FakeEngine(n_ctx=400)
    chain = chain_on(engine, PLAN, max_tokens=40)
    notices = []
    for number in range(12):
        engine.enqueue(f"answer {number} " + "x" * 25)
        notices += [event.text for event in chain.stream(f"Message {number}.") if isinstance(event, Notice)]
        assert len(engine.plans[-1].tokens) + 40 <= 400
        assert f"Message {number}." in prompts(engine)[-1]
    assert notices[0].startswith("the conversation outgrew the context of 400: rounds before round ")
    assert 1 < len(notices) < 9  # some rounds at once, not one each time
    first = chain.conversation.n_dropped
    assert f"rounds before round {first + 1} " in notices[-1]
    assert f"Message {first}." in prompts(engine)[-1] and f"Message {first - 1}." not in prompts(engine)[-1]
    assert len(chain.rounds) == 12


def test_rounds_leave_room_for_an_answer_without_limit() -> None:
    engine = FakeEngine(n_ctx=400)
    chain = chain_on(engine, PLAN, max_tokens=-1)
    for number in range(8):
        engine.enqueue(f"answer {number} " + "x" * 25)
        chain.run(f"Message {number}.")
        assert len(engine.plans[-1].tokens) <= 300
    assert chain.conversation.n_dropped > 0 and all(turn.finish_reason == "stop" for round in chain.rounds for turn in round.turns)


@pytest.mark.parametrize("task", ["", " \n\t "])
def test_an_empty_task_is_refused(engine: FakeEngine, task: str) -> None:
    with pytest.raises(UsageError, match="the task is empty"):
        chain_on(engine).stream(task)


def test_half_a_character_is_refused(engine: FakeEngine) -> None:
    with pytest.raises(UsageError, match=r"half a character \(U\+D800\) at position 2"):
        chain_on(engine).stream("ab\ud800")


def test_an_agent_that_is_not_there_cannot_be_stopped_after(engine: FakeEngine) -> None:
    with pytest.raises(UsageError, match="cannot stop after agent 3: the chain has agents 0 to 2"):
        chain_on(engine).stream("Sort.", stop_after=3)
