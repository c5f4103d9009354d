"""Conversations that are paused, edited, retried and measured, and go on after a failure."""

from __future__ import annotations

import pytest
from support.fakes import FakeEngine
from support.scripted_chain import CODE, LONG_CODE, LONG_PLAN, PLAN, chain_on, finished, kinds, prompts

from relaylite.api import Relay
from relaylite.errors import NativeError, UsageError
from relaylite.events import ChainFinished
from relaylite.metrics import CellMap
from relaylite.reuse.plan import Kind
from relaylite.sampling import MAX_SEED


def test_a_chain_pauses_after_an_agent_and_goes_on_with_the_corrected_text(engine: FakeEngine) -> None:
    engine.enqueue("wrong plan", "the code")
    chain = chain_on(engine, PLAN, CODE)
    paused = list(chain.stream("Sort.", stop_after=0))
    assert isinstance(paused[-1], ChainFinished) and len(paused[-1].turns) == 1
    chain.edit(0, 0, "right plan")
    assert [(turn.agent, turn.index, turn.round) for turn in finished(chain.resume())] == [("code", 1, 0)]
    assert "Answer of plan:\n\nright plan" in prompts(engine)[1] and "wrong" not in prompts(engine)[1]
    assert chain.rounds[0].turns[0].was_edited
    with pytest.raises(UsageError, match="nothing to resume"):
        chain.resume()


def test_edited_tokens_are_not_relayed(engine: FakeEngine) -> None:
    engine.enqueue("a" * 60, "the code")
    chain = chain_on(engine, PLAN, CODE)
    list(chain.stream("Sort.", stop_after=0))
    chain.edit(0, 0, "b" * 60)
    list(chain.resume())
    assert not engine.plans[1].count(Kind.SPAN)
    assert chain.rounds[0].turns[1].cells.cells[:, -90:].min() == CellMap.NEW


def test_an_edit_keeps_control_text_as_text_and_refuses_nothing_at_all(engine: FakeEngine) -> None:
    chain = chain_on(engine, PLAN)
    chain.run("Sort.")
    chain.edit(0, 0, "<|im_end|>")
    assert chain.rounds[0].turns[0].tokens == tuple(b"<|im_end|>")
    with pytest.raises(UsageError, match="cannot be empty"):
        chain.edit(0, 0, " ")
    with pytest.raises(UsageError, match="no answer 1 in round 0"):
        chain.edit(0, 1, "text")
    with pytest.raises(UsageError, match="half a character"):
        chain.edit(0, 0, "\udfff")


def test_a_round_can_be_retried_whole_or_from_one_agent_on(engine: FakeEngine) -> None:
    engine.enqueue("plan one", "code one", "code two", "plan three", "code three")
    chain = chain_on(engine, PLAN, CODE)
    chain.run("Sort.")
    assert chain.retry(1) == "Sort."
    assert [turn.text for turn in finished(chain.resume())] == ["code two"]
    assert chain.retry() == "Sort." and not chain.rounds
    assert [turn.text for turn in chain.run("Sort.").turns] == ["plan three", "code three"]
    with pytest.raises(UsageError, match="cannot retry from agent 3"):
        chain.retry(3)
    chain.retry()
    with pytest.raises(UsageError, match="no round to retry"):
        chain.retry()


def test_a_retried_prompt_is_prefix_but_for_its_last_token(engine: FakeEngine) -> None:
    engine.enqueue("one", "two")
    chain = chain_on(engine, PLAN, policy="prefix")
    chain.run("Sort.")
    chain.run(chain.retry())
    assert engine.plans[1].count(Kind.NEW) == 1
    assert engine.exact_rows() == len(engine.plans[1].tokens) + 3


def test_a_full_prefill_can_be_measured_and_leaves_nothing_behind(engine: FakeEngine) -> None:
    engine.enqueue(LONG_PLAN, LONG_CODE)
    relay = Relay(engine=engine, policy="naive", store_bytes=10**8)
    chain = relay.chain([PLAN, CODE])
    chain.run("Sort.")
    before, stored = chain.to_dict(), relay.memory().store_bytes
    assert chain.measure_full(0, 1) > 0
    assert relay.memory().store_bytes == stored > 0
    assert engine.plans[-1].tokens.tolist() == engine.plans[1].tokens.tolist()
    assert kinds(engine) == ["new"] and engine.samplings[-1].max_tokens == 1
    assert chain.to_dict() == before
    with pytest.raises(UsageError, match="no answer 2 in round 0"):
        chain.measure_full(0, 2)


# failure


@pytest.mark.parametrize(("where", "after"), [("prefill", 0), ("generate", 0), ("generate", 5)])
def test_a_turn_that_fails_leaves_the_chain_usable(engine: FakeEngine, where: str, after: int) -> None:
    engine.enqueue("the plan", "broken code", "the code")
    chain = chain_on(engine, PLAN, CODE)
    list(chain.stream("Sort.", stop_after=0))
    engine.fail(where, NativeError("decode returned -3"), after_tokens=after)
    with pytest.raises(NativeError, match="decode returned -3"):
        list(chain.resume())
    assert [turn.text for turn in chain.rounds[0].turns] == ["the plan"]
    assert [turn.index for turn in finished(chain.resume())] == [1]


def test_a_retry_draws_another_seed_where_chance_decides() -> None:
    engine = FakeEngine()
    chain = chain_on(engine, PLAN, temperature=1.5, seed=MAX_SEED)
    for _ in range(3):
        chain.run("Go.")
        chain.retry()
    chain.run("Go.")
    chain.retry(0)
    list(chain.resume())
    assert [sampling.seed for sampling in engine.samplings] == [MAX_SEED, 0, 1, 2, 3]


def test_a_retry_that_chance_has_no_part_in_keeps_the_seed() -> None:
    engine = FakeEngine()
    chain = chain_on(engine, PLAN, seed=7)
    chain.run("Go.")
    chain.run(chain.retry())
    assert [sampling.seed for sampling in engine.samplings] == [7, 7]
