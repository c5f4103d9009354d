"""Nothing that was said is lost: versions of messages and answers, the ways between them, and what goes on where it was cut."""

from __future__ import annotations

import json

import pytest
from support.fakes import FakeEngine
from support.scripted_chain import CODE, LONG_CODE, LONG_PLAN, PLAN, REVIEW, chain_on, finished, kinds, prompts

from relaylite.api import Relay
from relaylite.chain.agents import Agent, unanswered
from relaylite.chain.chain import Chain
from relaylite.chain.conversation import Conversation
from relaylite.errors import Cancelled, NativeError, UsageError
from relaylite.events import TurnStarted
from relaylite.metrics import FINISH_LENGTH, FINISH_STOP
from relaylite.reuse.plan import Kind

TEST = Agent("test", "Test the code.")


def texts(chain: Chain) -> list[list[str]]:
    """Messages and answers, a list for each round."""
    return [[round.task, *(turn.text for turn in round.turns)] for round in chain.rounds]


def loaded(chain: Chain) -> Chain:
    return Relay(engine=FakeEngine(), policy="naive", store_bytes=10**8).chain_from_dict(json.loads(json.dumps(chain.to_dict())))


# versions


def test_a_retried_answer_is_another_version_and_the_first_one_can_be_had_again(engine: FakeEngine) -> None:
    engine.enqueue("plan one", "code one", "code two")
    chain = chain_on(engine, PLAN, CODE)
    chain.run("Sort.")
    chain.retry(1)
    list(chain.resume())
    assert texts(chain) == [["Sort.", "plan one", "code two"]]
    assert chain.conversation.branches.versions() == {(0, 1): (1, 2)}
    chain.change(lambda conversation: conversation.choose((0, 1), 0))
    assert texts(chain) == [["Sort.", "plan one", "code one"]]
    assert chain.conversation.branches.versions() == {(0, 1): (0, 2)}


def test_a_version_comes_with_what_followed_it_and_leaves_the_other_as_it_was(engine: FakeEngine) -> None:
    engine.enqueue("plan one", "code one", "more plan", "more code", "plan two", "code of two")
    chain = chain_on(engine, PLAN, CODE)
    chain.run("Sort.")
    chain.run("More.")
    chain.retry(0, round=0)
    list(chain.resume())
    assert texts(chain) == [["Sort.", "plan two", "code of two"]]
    chain.change(lambda conversation: conversation.choose((0, 0), 0))
    assert texts(chain) == [["Sort.", "plan one", "code one"], ["More.", "more plan", "more code"]]
    chain.change(lambda conversation: conversation.choose((0, 0), 1))
    assert texts(chain) == [["Sort.", "plan two", "code of two"]]


def test_rows_of_a_version_are_relayed_when_it_is_chosen_again(engine: FakeEngine) -> None:
    engine.enqueue(LONG_PLAN, "another plan that is long enough to be relayed by itself", LONG_CODE)
    chain = chain_on(engine, PLAN, CODE)
    list(chain.stream("Sort.", stop_after=0))
    chain.retry(0)
    list(chain.resume(stop_after=0))
    chain.change(lambda conversation: conversation.choose((0, 0), 0))
    list(chain.resume())
    assert f"Answer of plan:\n\n{LONG_PLAN}" in prompts(engine)[-1]
    assert "span" in kinds(engine) and engine.plans[-1].count(Kind.SPAN) >= len(LONG_PLAN) - 1


def test_another_message_is_a_version_too(engine: FakeEngine) -> None:
    engine.enqueue("one", "two", "three")
    chain = chain_on(engine, PLAN)
    chain.run("First.")
    chain.run("Second.")
    chain.retry(round=1)
    chain.run("Other.")
    assert chain.conversation.branches.versions() == {(1, None): (1, 2)}
    chain.change(lambda conversation: conversation.choose((1, None), 0))
    assert texts(chain) == [["First.", "one"], ["Second.", "two"]]


def test_a_chain_can_branch_from_any_message(engine: FakeEngine) -> None:
    engine.enqueue("one", "two", "three", "other two")
    chain = chain_on(engine, PLAN)
    for message in ("First.", "Second.", "Third."):
        chain.run(message)
    assert chain.retry(round=1) == "Second."
    chain.run("Second, otherwise.")
    assert texts(chain) == [["First.", "one"], ["Second, otherwise.", "other two"]]
    chain.change(Conversation.undo)
    assert len(chain.rounds) == 3


def test_an_edit_can_be_undone_and_the_words_before_are_kept(engine: FakeEngine) -> None:
    engine.enqueue("plan one", "code one")
    chain = chain_on(engine, PLAN, CODE)
    chain.run("Sort.")
    chain.edit(0, 0, "better plan")
    assert texts(chain) == [["Sort.", "better plan", "code one"]]
    chain.change(Conversation.undo)
    assert texts(chain) == [["Sort.", "plan one", "code one"]]
    chain.change(Conversation.redo)
    assert texts(chain) == [["Sort.", "better plan", "code one"]] and chain.rounds[0].turns[0].was_edited


@pytest.mark.parametrize(("place", "version"), [((0, 0), 1), ((0, 0), -1), ((0, 1), 0), ((1, None), 0), ((0, None), 2)])
def test_a_version_that_is_not_there_is_refused(engine: FakeEngine, place: tuple[int, int | None], version: int) -> None:
    chain = chain_on(engine, PLAN)
    chain.run("Sort.")
    with pytest.raises(UsageError, match="there is no"):
        chain.change(lambda conversation: conversation.choose(place, version))


# undo


def test_every_change_can_be_undone_in_turn_and_done_again(engine: FakeEngine) -> None:
    engine.enqueue("one", "two", "three")
    chain = chain_on(engine, PLAN)
    chain.run("Sort.")
    for _ in range(2):
        chain.retry(0)
        list(chain.resume())
    chain.retry()
    assert texts(chain) == []
    seen = []
    for _ in range(3):
        chain.change(Conversation.undo)
        seen.append(texts(chain)[0][-1])
    assert seen == ["three", "two", "one"]
    with pytest.raises(UsageError, match="nothing to undo"):
        chain.change(Conversation.undo)
    for _ in range(3):
        chain.change(Conversation.redo)
    assert texts(chain) == []
    with pytest.raises(UsageError, match="nothing to redo"):
        chain.change(Conversation.redo)


def test_a_change_that_changes_nothing_is_no_step_of_undo(engine: FakeEngine) -> None:
    chain = chain_on(engine, PLAN)
    chain.run("Sort.")
    chain.retry(1)
    with pytest.raises(UsageError, match="nothing to undo"):
        chain.change(Conversation.undo)


def test_taking_the_same_back_twice_makes_one_branch(engine: FakeEngine) -> None:
    chain = chain_on(engine, PLAN)
    chain.run("Sort.")
    for _ in range(3):
        chain.retry(0)
        chain.change(Conversation.undo)
    assert len(chain.conversation.branches.every) == 2


# branches are kept


def test_branches_are_saved_and_loaded(engine: FakeEngine) -> None:
    engine.enqueue("plan one", "code one", "code two", "more", "and more", "otherwise", "so")
    chain = chain_on(engine, PLAN, CODE)
    chain.run("Sort.")
    chain.retry(1)
    list(chain.resume())
    chain.run("More.")
    chain.retry()
    chain.run("Otherwise.")
    chain.change(Conversation.undo)
    again = loaded(chain)
    assert again.to_dict() == chain.to_dict()
    assert again.conversation.branches.versions() == chain.conversation.branches.versions() == {(0, 1): (1, 2), (1, None): (0, 2)}
    for each in (chain, again):
        assert texts(each) == [["Sort.", "plan one", "code two"], ["More.", "more", "and more"]]
        each.change(Conversation.undo)
        assert texts(each) == [["Sort.", "plan one", "code one"]]
        each.change(lambda conversation: conversation.choose((0, 1), 1))
        assert texts(each)[1][0] == "More."  # what followed when that version was current last


def test_each_answer_is_written_once_however_many_branches_hold_it(engine: FakeEngine) -> None:
    engine.enqueue("the one plan")
    chain = chain_on(engine, PLAN, CODE)
    chain.run("Sort.")
    for _ in range(3):
        chain.retry(1)
        list(chain.resume())
    assert json.dumps(chain.to_dict()).count("the one plan") == 1


def test_a_conversation_of_the_first_format_is_loaded(engine: FakeEngine) -> None:
    chain = chain_on(engine, PLAN)
    chain.run("Sort.")
    data = chain.to_dict()
    old = {key: value for key, value in data.items() if key not in ("branches", "left", "undone", "messages", "answers")} | {"version": 1}
    again = Relay(engine=FakeEngine(), policy="naive", store_bytes=10**8).chain_from_dict(old)
    assert texts(again) == [["Sort.", "Understood."]] and again.to_dict() == data


# seeds


def test_a_retry_draws_another_seed_and_a_first_attempt_does_not(engine: FakeEngine) -> None:
    chain = chain_on(engine, PLAN, CODE, temperature=0.8, seed=7)
    chain.run("Sort.")
    for _ in range(2):
        chain.retry(1)
        list(chain.resume())
    chain.run(chain.retry())
    chain.run("Another message.")
    assert [sampling.seed for sampling in engine.samplings] == [7, 7, 8, 9, 8, 10, 7, 7]


def test_seeds_go_on_after_loading(engine: FakeEngine) -> None:
    chain = chain_on(engine, PLAN, temperature=0.8)
    chain.run("Sort.")
    again_engine = FakeEngine()
    again = Relay(engine=again_engine, sampling={"temperature": 0.8}, store_bytes=10**8).chain_from_dict(chain.to_dict())
    again.run(again.retry())
    assert [sampling.seed for sampling in again_engine.samplings] == [1]


# an answer that was cut


def test_a_cut_answer_goes_on_from_its_tokens(engine: FakeEngine) -> None:
    engine.enqueue("the first half and", " the second half", "the code")
    chain = chain_on(engine, PLAN, CODE, max_tokens=18)
    list(chain.stream("Sort.", stop_after=0))
    assert chain.rounds[0].turns[0].finish_reason == FINISH_LENGTH
    events = list(chain.extend(0, 0))
    assert texts(chain) == [["Sort.", "the first half and the second half", "the code"]]
    [begun, _] = [event.begun for event in events if isinstance(event, TurnStarted)]
    assert begun == "the first half and"
    turn = chain.rounds[0].turns[0]
    assert (turn.tokens, turn.finish_reason) == (tuple(b"the first half and the second half"), FINISH_STOP)
    assert prompts(engine)[1] == prompts(engine)[0] + "the first half and" and engine.plans[1].count(Kind.NEW) == 1
    chain.change(Conversation.undo)
    assert texts(chain) == [["Sort.", "the first half and"]]


def test_a_cut_character_is_written_again(engine: FakeEngine) -> None:
    engine.enqueue("año", "ño", "")
    chain = chain_on(engine, PLAN, max_tokens=2)
    chain.run("Sort.")
    assert chain.rounds[0].turns[0].tokens == tuple("año".encode()[:2])
    list(chain.extend(0, 0))
    assert texts(chain) == [["Sort.", "añ"]]


def test_what_was_not_cut_does_not_go_on(engine: FakeEngine) -> None:
    chain = chain_on(engine, PLAN)
    chain.run("Sort.")
    with pytest.raises(UsageError, match="was not cut"):
        chain.extend(0, 0)
    with pytest.raises(UsageError, match="there is no answer 3"):
        chain.extend(0, 3)


@pytest.mark.parametrize("where", ["prefill", "generate"])
def test_a_cut_answer_that_does_not_come_to_go_on_stays(engine: FakeEngine, where: str) -> None:
    engine.enqueue("the first half and", " more")
    chain = chain_on(engine, PLAN, max_tokens=18)
    chain.run("Sort.")
    engine.fail(where, NativeError("decode returned -3"))
    with pytest.raises(NativeError):
        list(chain.extend(0, 0))
    assert texts(chain) == [["Sort.", "the first half and"]]


def test_an_answer_that_was_stopped_goes_on_too(engine: FakeEngine) -> None:
    engine.enqueue("stopped in the middle", " of it")
    chain = chain_on(engine, PLAN)
    with pytest.raises(Cancelled):
        for event in chain.stream("Sort."):
            if getattr(event, "n_tokens", 0) == 7:
                chain.cancel()
    assert texts(chain) == [["Sort.", "stopped"]]
    assert [turn.text for turn in finished(chain.extend(0, 0))] == ["stopped of it"]


# agents that come and go


def test_an_agent_that_is_put_between_finished_ones_answers_in_its_place(engine: FakeEngine) -> None:
    engine.enqueue("the plan", "the review", "the code")
    chain = chain_on(engine, PLAN, REVIEW)
    chain.run("Sort.")
    chain.agents = (PLAN, CODE, REVIEW)
    [started] = [event for event in chain.resume() if isinstance(event, TurnStarted)]
    assert (started.agent, started.index, started.at) == ("code", 1, 1)
    assert [(turn.agent, turn.index, turn.text) for turn in chain.rounds[0].turns] == [
        ("plan", 0, "the plan"),
        ("code", 1, "the code"),
        ("review", 2, "the review"),
    ]
    assert "the plan" in prompts(engine)[-1] and "the review" not in prompts(engine)[-1]
    with pytest.raises(UsageError, match="nothing to resume"):
        chain.resume()


def test_an_agent_that_follows_one_that_left_the_chain_is_not_passed_over(engine: FakeEngine) -> None:
    engine.enqueue("the plan", "the code", "the review")
    chain = chain_on(engine, PLAN, CODE)
    chain.run("Sort.")
    chain.agents = (CODE, REVIEW)
    list(chain.resume())
    assert texts(chain) == [["Sort.", "the plan", "the code", "the review"]]
    assert "the plan" in prompts(engine)[-1]


@pytest.mark.parametrize(
    ("agents", "answered", "missing"),
    [
        ("abc", "", [(0, 0), (1, 1), (2, 2)]),
        ("abc", "a", [(1, 1), (2, 2)]),
        ("abc", "abc", []),
        ("abc", "ac", [(1, 1)]),
        ("abcd", "bd", [(0, 0), (2, 2)]),
        ("bc", "ab", [(1, 2)]),
        ("xy", "a", [(0, 1), (1, 2)]),
        ("aba", "ab", [(2, 2)]),
        ("aab", "ab", [(0, 0)]),
    ],
)
def test_who_has_not_answered_and_where_it_belongs(agents: str, answered: str, missing: list[tuple[int, int]]) -> None:
    assert unanswered([Agent(name, "Answer.") for name in agents], list(answered)) == missing
