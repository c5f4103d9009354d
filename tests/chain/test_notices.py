"""What a run tells the user besides the answers: said with the right reason, and only where there is something to say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.fakes import FakeEngine

from relaylite.api import Relay
from relaylite.chain.notices import relaying_is_off, rounds_no_longer_read, rows_not_kept, why_nothing_relayed
from relaylite.errors import NativeError
from relaylite.events import Notice, PromptPart, Turn
from relaylite.metrics import CellMap, TurnMetrics
from relaylite.reuse.policies import NAIVE, PREFIX, RELAY, Policy

NO_ROWS = "answers were read anew instead of taken over"


def turn(*answers: int, before: int = 10, prefix: int = 0, relayed: range = range(0)) -> Turn:
    """One whose prompt holds answers of so many tokens behind `before` others, with these positions relayed."""
    parts = [PromptPart("user", "", (0,) * before, ""), *(PromptPart("answer", "plan", (1,) * n, "") for n in answers)]
    n = before + sum(answers)
    cells = np.full((2, n), CellMap.NEW, np.uint8)
    cells[:, :prefix] = CellMap.PREFIX
    cells[0, relayed] = CellMap.REUSED
    cells[1, relayed] = CellMap.RECOMPUTED
    metrics = TurnMetrics(prefix_tokens=prefix, span_tokens=len(relayed))
    return Turn("code", 1, 0, "", (), "stop", metrics, tuple(parts), CellMap(cells, np.full(n, np.nan, np.float32)))


@pytest.mark.parametrize(
    ("turns", "policy", "said"),
    [
        ([turn(20)], RELAY, ""),
        ([turn(20), turn(31, 5)], NAIVE, ""),
        ([turn(32)], RELAY, ""),  # its last token has no row
        ([turn(33)], RELAY, NO_ROWS),
        ([turn(5, 100)], RELAY, NO_ROWS),
        ([turn(20, prefix=29)], RELAY, ""),
        ([turn(20, prefix=30)], RELAY, ""),
        ([turn(48, 21, prefix=57)], RELAY, ""),  # but for its last token the long one stands in place
        ([turn(48, prefix=20)], RELAY, NO_ROWS),
        ([turn(50, relayed=range(10, 59))], RELAY, ""),
        ([turn(50, before=60, relayed=range(10, 59))], RELAY, NO_ROWS),  # text around the answer was relayed
        ([turn(50), turn(60, relayed=range(69, 70))], RELAY, ""),
        ([turn()], RELAY, ""),
        ([], RELAY, ""),
        ([turn(50)], PREFIX, ""),
    ],
)
def test_the_reason_is_that_of_the_longest_answer_which_was_computed(turns: list[Turn], policy: Policy, said: str) -> None:
    reason = why_nothing_relayed(turns, policy)
    assert said in reason and bool(reason) is bool(said)


def test_a_chain_says_that_an_edited_answer_is_computed() -> None:
    engine = FakeEngine()
    engine.enqueue("x" * 100, "fine")
    with Relay(engine=engine, policy="naive", sampling={"ends_loops": False}) as relay:
        chain = relay.chain(["plan", "code"])
        list(chain.stream("Sort."))
        assert chain.result.notices == ()
        chain.retry(1)
        chain.edit(0, 0, "y" * 100)
        notices = [event for event in chain.resume() if isinstance(event, Notice)]
        assert [notice.is_minor for notice in notices] == [True] and NO_ROWS in notices[0].text
        assert chain.result.notices == (notices[0].text,)


@pytest.mark.parametrize(("refusal", "policy", "is_said"), [("no RoPE", RELAY, True), ("no RoPE", PREFIX, False), (None, RELAY, False)])
def test_relaying_is_off_only_where_it_was_asked_for(refusal: str | None, policy: Policy, is_said: bool) -> None:
    said = relaying_is_off(refusal, policy)
    assert said == ("relaying is off for this model: no RoPE; running with policy prefix" if is_said else "")


def test_rounds_are_counted_from_one() -> None:
    assert rounds_no_longer_read(2, 400) == "the conversation outgrew the context of 400: rounds before round 3 are no longer read"


def test_rows_that_could_not_be_kept_are_told_with_the_agent_and_the_reason() -> None:
    said = rows_not_kept("plan", NativeError("no memory"))
    assert said == "the rows of plan's turn could not be kept, so later turns compute them again: no memory"


def test_rows_that_could_not_be_kept_cost_no_answer(engine: FakeEngine) -> None:
    with Relay(engine=engine, policy="naive") as relay:
        chain = relay.chain(["plan"])
        engine.fail("harvest", NativeError("no memory"))
        assert chain.run("Sort.").text == "Understood."
        assert chain.result.notices == (rows_not_kept("plan", NativeError("no memory")),)


def test_a_model_that_cannot_relay_says_so_in_every_run_and_its_warnings_once() -> None:
    engine = FakeEngine(relay_refusal="no RoPE")
    engine.info = replace(engine.info, warnings=("a long context",))
    with Relay(engine=engine, policy="naive") as relay:
        chain = relay.chain(["plan"])
        off = relaying_is_off("no RoPE", NAIVE)
        assert [chain.run("Sort.").notices for _ in range(2)] == [("a long context", off), (off,)]
        assert chain.result.policy == "prefix"
