"""The same turn under two policies: what differs first, and that nothing of the second answer is kept."""

from __future__ import annotations

import threading

import pytest
from support.fakes import FakeEngine
from support.scripted_chain import CODE, LONG_CODE, LONG_PLAN, PLAN, REVIEW, chain_on, kinds

from relaylite.api import Relay
from relaylite.errors import Cancelled, EngineBusy, UsageError
from relaylite.events import Event, PrefillDone, TurnFinished
from relaylite.reuse.plan import Kind
from relaylite.sampling import MAX_SEED


def test_two_answers_that_differ_at_a_known_token_and_nothing_is_kept(engine: FakeEngine) -> None:
    engine.enqueue(LONG_PLAN, "sort it now", "sort ät once")
    relay = Relay(engine=engine, policy="naive", sampling={"max_tokens": 100}, store_bytes=10**8)
    chain = relay.chain([PLAN, CODE])
    chain.run("Sort.")
    before, stored, seen = chain.to_dict(), relay.memory().store_bytes, list[Event]()
    found = chain.compare(0, 1, on_event=seen.append)
    assert (found.turn.text, found.other.text, found.policy) == ("sort it now", "sort ät once", "full")
    assert (found.differs_at, found.n_alike, found.words) == (5, 5, ("i", "�"))  # a token is a byte here
    assert found.equal_share == sum(a == b for a, b in zip(b"sort it now", "sort ät once".encode(), strict=False)) / 13
    assert found.turn.metrics.prompt_reuse > 0 == found.other.metrics.prompt_reuse and kinds(engine) == ["new"]
    assert found.turn.metrics.recomputed_share == found.other.metrics.recomputed_share == 0
    assert engine.plans[-1].tokens.tolist() == engine.plans[1].tokens.tolist() and engine.samplings[-1] == engine.samplings[1]
    assert [type(event) for event in seen if isinstance(event, PrefillDone | TurnFinished)] == [PrefillDone, TurnFinished]
    assert chain.to_dict() == before and relay.memory().store_bytes == stored


@pytest.mark.parametrize(
    ("answers", "at", "words", "share"), [(("one", "one"), None, ("", ""), 1), (("one", "one two"), 3, ("", " "), 3 / 7)]
)
def test_equal_answers_and_one_that_ends_sooner(
    engine: FakeEngine, answers: tuple[str, str], at: int | None, words: tuple[str, str], share: float
) -> None:
    engine.enqueue(*answers)
    chain = chain_on(engine, PLAN)
    chain.run("Sort.")
    found = chain.compare(0, 0)
    assert (found.differs_at, found.words, found.n_alike, found.equal_share) == (at, words, 3, share)


@pytest.mark.parametrize("policy", ["prefix", "naive"])
def test_the_other_policy_takes_over_what_was_known_before_and_not_what_the_turn_itself_left(engine: FakeEngine, policy: str) -> None:
    engine.enqueue(LONG_PLAN, LONG_CODE, "fine", LONG_PLAN, LONG_CODE, "good")
    chain = chain_on(engine, PLAN, CODE, REVIEW, policy=policy)
    chain.run("Sort.")
    chain.run("Sort faster.")
    for round in (0, 1):
        for index in range(3):
            chain.compare(round, index, policy)
            first, again = engine.plans[3 * round + index], engine.plans[-1]
            assert again.count(Kind.PREFIX) == first.count(Kind.PREFIX)
            assert abs(again.count(Kind.SPAN) - first.count(Kind.SPAN)) < again.policy.min_span  # pieces between answers may be too short
            engine.verify()


def test_another_attempt_is_compared_with_its_own_seed() -> None:
    engine = FakeEngine()
    chain = chain_on(engine, PLAN, temperature=1.5, seed=MAX_SEED)
    chain.run("Sort.")
    chain.retry(0)
    list(chain.resume())
    chain.compare(0, 0)
    assert engine.samplings[-1] == engine.samplings[1] != engine.samplings[0]
    chain.change(lambda conversation: conversation.undo())
    chain.compare(0, 0)
    assert engine.samplings[-1] == engine.samplings[0]


def test_a_cut_answer_that_went_on_is_compared_at_its_length(engine: FakeEngine) -> None:
    engine.enqueue("sort it now, please", " it now", " at once, please")
    chain = chain_on(engine, PLAN, max_tokens=4)
    chain.run("Sort.")
    list(chain.extend(0, 0))
    assert chain.rounds[0].turns[0].text == "sort it "
    chain.sampling = chain.sampling.merged({"max_tokens": 50})
    found = chain.compare(0, 0)
    assert found.other.text == "sort at " and (found.differs_at, found.words) == (5, ("i", "a"))


def test_what_cannot_be_compared_says_why(engine: FakeEngine) -> None:
    chain = chain_on(engine, PLAN, CODE)
    chain.run("Sort.")
    with pytest.raises(UsageError, match="no answer 2 in round 0"):
        chain.compare(0, 2)
    with pytest.raises(UsageError, match="unknown policy 'best'"):
        chain.compare(0, 1, "best")
    chain.edit(0, 1, "mine")
    with pytest.raises(UsageError, match="code's answer was edited"):
        chain.compare(0, 1)
    chain.agents = [CODE]
    with pytest.raises(UsageError, match="the prompt of plan is not known any more"):
        chain.compare(0, 0)
    stream = chain.stream("More.")
    next(stream)
    with pytest.raises(EngineBusy):
        chain.compare(0, 0)
    chain.cancel()
    with pytest.raises(Cancelled):
        list(stream)


def test_it_can_be_cancelled_half_way(engine: FakeEngine) -> None:
    chain = chain_on(engine, PLAN)
    chain.run("Sort.")
    before = chain.to_dict()
    engine.token_gate.clear()
    threading.Thread(target=lambda: (engine.in_generate.wait(60), chain.cancel())).start()
    with pytest.raises(Cancelled):
        chain.compare(0, 0)
    engine.token_gate.set()
    assert chain.to_dict() == before and chain.compare(0, 0).differs_at is None
