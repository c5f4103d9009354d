"""Which request runs next."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from relaylite.completion.order import MAX_OVERTAKEN, next_of


@dataclass(eq=False)
class Entry:
    cost: int
    n_overtaken: int = 0


def test_the_cheapest_goes_first_and_of_equals_the_oldest() -> None:
    queue = [Entry(50), Entry(10), Entry(10)]
    assert next_of(queue, lambda entry: entry.cost) is queue[1]
    assert [entry.n_overtaken for entry in queue] == [1, 0, 0]


@given(st.lists(st.integers(0, 100), min_size=1, max_size=60))
def test_nobody_is_overtaken_more_than_the_bound(costs: list[int]) -> None:
    queue: list[Entry] = []
    for cost in costs:  # two come for each that runs, so that the queue grows
        queue += [Entry(100), Entry(cost)]
        chosen = next_of(queue, lambda entry: entry.cost)
        queue.remove(chosen)
        assert chosen.n_overtaken <= MAX_OVERTAKEN + len(costs)
        overdue = [entry for entry in queue if entry.n_overtaken > MAX_OVERTAKEN]
        assert not overdue or chosen.n_overtaken >= MAX_OVERTAKEN
