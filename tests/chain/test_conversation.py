"""A conversation as a value: rounds begin, answers are found, replaced and taken back."""

from __future__ import annotations

import pytest
from support.fakes import ByteTokenizer

from relaylite.chain.conversation import Conversation, Round
from relaylite.errors import UsageError
from relaylite.events import Turn
from relaylite.metrics import TurnMetrics


def conversation(*n_turns: int, n_dropped: int = 0) -> Conversation:
    """With so many answers in each round."""
    rounds = [Round(f"task {number}", [answer(number, index) for index in range(n)]) for number, n in enumerate(n_turns)]
    return Conversation(rounds, n_dropped)


def answer(round: int, index: int) -> Turn:
    return Turn("plan", index, round, "text", tuple(b"text"), "stop", TurnMetrics())


def test_a_round_begins_once() -> None:
    said, round = conversation(1), Round("more")
    assert (said.begin(round), said.begin(round)) == (1, 1)
    assert [each.task for each in said.rounds] == ["task 0", "more"]


def test_rounds_with_the_same_words_are_two_rounds() -> None:
    said = conversation()
    assert (said.begin(Round("go on")), said.begin(Round("go on"))) == (0, 1)


def test_dropped_rounds_are_kept_and_not_read() -> None:
    said = conversation(1, 1, 1, n_dropped=2)
    assert [each.task for each in said.rounds_read] == ["task 2"] and len(said.rounds) == 3


@pytest.mark.parametrize(("round", "index"), [(-1, 0), (2, 0), (0, -1), (0, 1), (1, 0)])
def test_an_answer_that_is_not_there_is_refused_with_both_numbers(round: int, index: int) -> None:
    with pytest.raises(UsageError, match=f"there is no answer {index} in round {round}"):
        conversation(1, 0).answer(round, index)


def test_an_edited_answer_is_tokenized_anew_and_marked() -> None:
    said = conversation(2)
    said.edit(0, 1, "new", ByteTokenizer())
    old, new = said.rounds[0].turns
    assert (new.text, new.tokens, new.was_edited, old.was_edited) == ("new", tuple(b"new"), True, False)


def test_taking_back_rounds_that_were_read_lets_earlier_ones_be_read_again() -> None:
    """What fits is found out anew: else agents would read nothing of what is left."""
    said = conversation(1, 1, 1, 1, n_dropped=2)
    assert said.take_back() == "task 3" and said.n_dropped == 2
    assert said.take_back() == "task 2" and said.n_dropped == 0 and len(said.rounds_read) == 2


def test_taking_back_answers_keeps_the_round() -> None:
    said = conversation(1, 3)
    assert said.take_back(1) == "task 1"
    assert [len(each.turns) for each in said.rounds] == [1, 1]


@pytest.mark.parametrize("index", [-1, 4])
def test_what_is_not_there_cannot_be_taken_back(index: int) -> None:
    with pytest.raises(UsageError, match=f"cannot retry from agent {index}: 3 agents have answered"):
        conversation(3).take_back(index)
    with pytest.raises(UsageError, match="there is no round to retry yet"):
        conversation().take_back()
