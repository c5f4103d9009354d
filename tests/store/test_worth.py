"""What is kept when memory is short: what the next agents will ask for."""

from __future__ import annotations

import numpy as np
import pytest
from support.sample_rows import LAYOUT, rows_of

from relaylite.store import Store
from relaylite.store.worth import Foresight, Uses

AGENTS = ("plan", "code", "test", "review")


class Lru(Foresight):
    """Knows nothing, so that only the order of use counts."""

    def chance(self, uses: Uses, soon: dict[str, float]) -> float:
        return 0.0


def run(foresight: Foresight, order: list[str], *, room_for: int) -> int:
    """Tokens that prefix hits save when agents with histories of equal length take turns in this order."""
    histories = {agent: [100 * (i + 1)] * 20 for i, agent in enumerate(AGENTS)}
    longest = 20 + max(order.count(agent) for agent in AGENTS)
    store = Store(LAYOUT, room_for * longest * (LAYOUT.token_bytes + 4), foresight=foresight)
    for n, agent in enumerate(order):
        histories[agent] = [*histories[agent], n]
        store.prefix(np.array(histories[agent], np.int32), exact=True)
        store.put(rows_of(histories[agent], origin=agent))
    return store.stats().hit_tokens


def test_in_a_ring_that_does_not_fit_the_least_recently_used_is_the_next_one():
    order = list(AGENTS) * 6
    lru = run(Lru(), order, room_for=2)
    worth = run(Foresight(), order, room_for=2)
    assert worth > 1.3 * lru


def test_agents_that_run_seldom_give_way_to_those_that_run_often():
    order = ["plan", *["code", "test"] * 8, "review", *["code", "test"] * 8]
    assert run(Foresight(), order, room_for=1) >= run(Lru(), order, room_for=1)


def test_with_room_for_all_nothing_is_lost():
    order = list(AGENTS) * 3
    assert run(Foresight(), order, room_for=20) == run(Lru(), order, room_for=20)


def test_the_agent_that_always_follows_is_expected_soonest():
    foresight = Foresight()
    for agent in ["plan", "code", "review"] * 5 + ["plan"]:
        foresight.finish_turn(agent)
    soon = foresight.visits()
    assert soon["code"] > soon["review"] > soon["plan"]


def test_one_turn_is_little_evidence():
    foresight = Foresight()
    for agent in ["plan", "code", "plan", "review", "plan"]:
        foresight.finish_turn(agent)
    soon = foresight.visits()
    assert soon["code"] == pytest.approx(soon["review"])
    foresight.finish_turn("code")
    foresight.finish_turn("plan")
    soon = foresight.visits()
    assert soon["review"] < soon["code"] < 3 * soon["review"]


def test_rows_asked_for_again_are_worth_more_and_those_passed_over_less():
    foresight = Foresight()
    foresight.finish_turn("plan")
    asked, ignored = foresight.new_uses(), foresight.new_uses()
    chances = []
    for _ in range(5):
        foresight.finish_turn("plan")
        foresight.note_hit(asked)
        chances.append((foresight.chance(asked, {"plan": 1.0}), foresight.chance(ignored, {"plan": 1.0})))
    assert [hot for hot, _ in chances] == sorted(hot for hot, _ in chances)
    assert [cold for _, cold in chances] == sorted((cold for _, cold in chances), reverse=True)
    assert all(0 < cold < hot < 1 for hot, cold in chances)


def test_old_habits_are_forgotten():
    foresight = Foresight()
    foresight.finish_turn("plan")
    uses = foresight.new_uses()
    for _ in range(5):
        foresight.finish_turn("plan")
        foresight.note_hit(uses)
    habit = foresight.chance(uses, {"plan": 1.0})
    for _ in range(10):
        foresight.finish_turn("plan")
    assert foresight.chance(uses, {"plan": 1.0}) < habit / 4


def test_without_turns_nothing_is_expected():
    assert Foresight().visits() == {}
    assert Foresight().chance(Uses(), {}) == 0
