"""When an answer is sure to only repeat itself: long enough, often enough, and not where text is rightly alike."""

from __future__ import annotations

import pytest
from support.fakes import FakeEngine
from support.scripted_chain import PLAN, chain_on

from relaylite.chain.loops import Loop
from relaylite.chain.transcript import FINISH_REASONS
from relaylite.events import Notice, TurnFinished


def closes_at(tokens: list[int]) -> tuple[int, int] | None:
    """Tokens until a loop is sure, and the length of its sequence; None if it never is."""
    loop = Loop()
    return next(((n, period) for n, token in enumerate(tokens, 1) if (period := loop.closes_with(token))), None)


@pytest.mark.parametrize(("period", "n"), [(1, 96), (5, 96), (9, 96), (10, 100), (25, 250), (32, 256), (64, 256), (100, 400), (128, 512)])
def test_a_sequence_must_stand_in_a_row_often_and_long_enough(period: int, n: int) -> None:
    before, sequence = list(range(1000, 1040)), list(range(period))
    assert closes_at(before + sequence * 100) == (40 + n, period)
    assert closes_at(before + (sequence * 100)[: n - 1] + [7777] + (sequence * 100)[: n - 1]) is None


def test_longer_sequences_are_not_looked_for() -> None:
    assert closes_at(list(range(129)) * 20) is None


def test_a_board_of_equal_rows_and_a_counting_list_are_no_loops() -> None:
    row = [0, 500] * 13 + [600, 601]
    assert closes_at(row * 9) is None
    assert closes_at([token for number in range(200) for token in (1, 2, 3, 4, 5, 10 + number)]) is None


def test_an_answer_that_loops_is_ended_with_a_notice() -> None:
    engine = FakeEngine()
    engine.enqueue("It begins well. " + "assert f(1) == 2\n" * 40, "the next one answers")
    chain = chain_on(engine, PLAN, max_tokens=600)
    events = list(chain.stream("Test it."))
    [turn] = [event.turn for event in events if isinstance(event, TurnFinished)]
    assert turn.text == "It begins well. " + "assert f(1) == 2\n" * 10 and turn.metrics.generated_tokens == len(turn.text)
    assert turn.finish_reason == "stop" and turn.finish_reason in FINISH_REASONS
    [notice] = [event.text for event in events if isinstance(event, Notice) and not event.is_minor]
    assert notice.startswith("plan's answer repeated the same 17 tokens over and over and was ended")
    assert chain.run("Again.").turns[0].text == "the next one answers"
    engine.verify()


@pytest.mark.parametrize("told", [{"temperature": 0}, {"ends_loops": False}])
def test_an_answer_goes_on_if_that_is_told(told: dict[str, object]) -> None:
    engine = FakeEngine()
    engine.enqueue("again " * 60)
    result = chain_on(engine, PLAN, **told).run("Say it.")
    assert result.turns[0].text == "again " * 60 and result.notices == ()
