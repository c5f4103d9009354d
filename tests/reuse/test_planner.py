"""The planner's laws, on the real store: a plan tiles its prompt, takes over only equal tokens, and computes the last one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relaylite.errors import UsageError
from relaylite.reuse.plan import Kind, Plan, Segment
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import FULL, LABELS, NAIVE, POLICIES, PREFIX, RELAY, Policy, parse_policy
from relaylite.reuse.rows import RowLayout, Rows
from relaylite.store import Store

LAYOUT = RowLayout((4, 4), (4, 4), "test")
SHORT = Policy("naive", use_prefix=True, use_spans=True, min_span=4)


def rows_of(tokens: list[int], *, n_exact: int | None = None, position: int = 0) -> Rows:
    n = len(tokens)
    data = np.arange(n * LAYOUT.token_bytes, dtype=np.uint32).astype(np.uint8)
    return Rows(np.array(tokens, np.int32), position, n if n_exact is None else n_exact, data, LAYOUT)


def store_of(*runs: Rows) -> Store:
    store = Store(LAYOUT, 10**8)
    for run in runs:
        store.put(run)
    return store


def shape(plan: Plan) -> list[tuple[str, int, int]]:
    return [(segment.kind.value, segment.start, segment.end) for segment in plan.segments]


def words(first: int, n: int) -> list[int]:
    """`n` tokens that occur nowhere else."""
    return list(range(first, first + n))


def test_the_labels_name_every_policy() -> None:
    assert {parse_policy(label).name for label in LABELS} == set(POLICIES)


def test_full_computes_everything_whatever_is_stored() -> None:
    tokens = words(0, 50)
    assert shape(make_plan(tokens, store_of(rows_of(tokens)), FULL)) == [("new", 0, 50)]


def test_a_prompt_that_is_stored_whole_is_prefix_but_for_its_last_token() -> None:
    tokens = words(0, 50)
    assert shape(make_plan(tokens, store_of(rows_of(tokens)), PREFIX)) == [("prefix", 0, 49), ("new", 49, 50)]


def test_a_prompt_of_one_token_is_computed() -> None:
    assert shape(make_plan([7], store_of(rows_of([7, 8, 9])), NAIVE)) == [("new", 0, 1)]


def test_a_prompt_that_is_the_start_of_a_stored_one_still_computes_its_last_token() -> None:
    assert shape(make_plan(words(0, 20), store_of(rows_of(words(0, 50))), NAIVE)) == [("prefix", 0, 19), ("new", 19, 20)]


def test_prefix_then_new_text_then_span_then_suffix() -> None:
    answer = words(500, 40)
    store = store_of(rows_of(words(0, 30)), rows_of(words(100, 10) + answer))
    plan = make_plan(words(0, 30) + words(200, 5) + answer + words(300, 6), store, NAIVE)
    assert shape(plan) == [("prefix", 0, 30), ("new", 30, 35), ("span", 35, 75), ("new", 75, 81)]


def test_the_exact_policy_takes_no_spans() -> None:
    answer = words(500, 40)
    plan = make_plan([1, *answer, 2], store_of(rows_of([9, *answer])), PREFIX)
    assert shape(plan) == [("new", 0, 42)]


def test_a_span_that_reaches_the_end_is_cut_by_one() -> None:
    answer = words(500, 40)
    plan = make_plan([1, *answer], store_of(rows_of([9, *answer])), NAIVE)
    assert shape(plan) == [("new", 0, 1), ("span", 1, 40), ("new", 40, 41)]
    [span] = plan.of(Kind.SPAN)
    assert span.rows is not None and len(span) == 39


def test_runs_below_the_least_length_are_computed() -> None:
    store = store_of(rows_of([9, *words(500, 31)]), rows_of([8, *words(600, 32)]))
    plan = make_plan([1, *words(500, 31), 2, *words(600, 32), 3], store, NAIVE)
    assert shape(plan) == [("new", 0, 33), ("span", 33, 65), ("new", 65, 66)]


def test_two_answers_back_to_back_in_another_order_are_two_spans() -> None:
    one, two = words(500, 40), words(600, 50)
    plan = make_plan([1, *two, *one, 2], store_of(rows_of([9, *one, 8, *two])), RELAY)
    assert shape(plan) == [("new", 0, 1), ("span", 1, 51), ("span", 51, 91), ("new", 91, 92)]


def test_the_same_answer_twice_in_one_prompt_is_taken_over_twice() -> None:
    answer = words(500, 40)
    plan = make_plan([1, *answer, 2, *answer, 3], store_of(rows_of([9, *answer])), NAIVE)
    assert [segment.end - segment.start for segment in plan.of(Kind.SPAN)] == [40, 40]


def test_lossy_history_is_prefix_for_relaying_policies_and_new_for_exact_ones() -> None:
    history = words(0, 60)
    store = store_of(rows_of(history, n_exact=20))
    assert shape(make_plan([*history, 999], store, NAIVE)) == [("prefix", 0, 60), ("new", 60, 61)]
    assert shape(make_plan([*history, 999], store, PREFIX)) == [("prefix", 0, 20), ("new", 20, 61)]


def test_a_prefix_moves_nothing() -> None:
    tokens = words(0, 50)
    [prefix] = make_plan([*tokens, 999], store_of(rows_of(tokens)), NAIVE).of(Kind.PREFIX)
    assert prefix.rows is not None
    assert prefix.rotation == prefix.start == 0


def test_exact_tokens_of_a_plan_end_where_loss_begins() -> None:
    answer = words(500, 40)
    store = store_of(rows_of(words(0, 30)), rows_of([9, *answer]), rows_of([7, *words(700, 30)], n_exact=10))
    assert make_plan([*words(0, 30), 1, *answer, 2], store, NAIVE).n_exact == 31
    assert make_plan([*words(0, 30), 1, *answer, 2], store, PREFIX).n_exact == 72
    assert make_plan([7, *words(700, 30), 3], store, NAIVE).n_exact == 10


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(UsageError, match="prompt is empty"):
        make_plan([], store_of(), NAIVE)


def test_a_plan_with_a_gap_an_overlap_or_no_last_token_cannot_be_made() -> None:
    tokens = np.array([1, 2, 3], np.int32)
    rows = rows_of([1, 2, 3])
    for segments in (
        [Segment(0, 1, Kind.NEW), Segment(2, 3, Kind.NEW)],
        [Segment(0, 2, Kind.NEW), Segment(1, 3, Kind.NEW)],
        [Segment(0, 2, Kind.NEW)],
        [Segment(0, 3, Kind.PREFIX, rows)],
        [Segment(0, 3, Kind.NEW, rows)],
        [Segment(0, 2, Kind.SPAN), Segment(2, 3, Kind.NEW)],
        [],
    ):
        with pytest.raises(ValueError):
            Plan(tokens, tuple(segments), NAIVE)


few_tokens = st.lists(st.integers(0, 2), min_size=1, max_size=40)  # so few that runs repeat all the time


@settings(deadline=None)
@given(
    stored=st.lists(st.tuples(few_tokens, st.integers(0, 40)), max_size=4),
    prompt=few_tokens,
    policy=st.sampled_from([*POLICIES.values(), SHORT]),
)
def test_laws(stored: list[tuple[list[int], int]], prompt: list[int], policy: Policy) -> None:
    store = store_of(*(rows_of(tokens, n_exact=min(n_exact, len(tokens))) for tokens, n_exact in stored))
    plan = make_plan(prompt, store, policy)

    assert [position for segment in plan.segments for position in range(segment.start, segment.end)] == list(range(len(prompt)))
    assert plan.segments[-1].kind is Kind.NEW
    for segment in plan.segments:
        if segment.rows is not None:
            assert segment.rows.tokens[segment.offset :][: len(segment)].tolist() == prompt[segment.start : segment.end]
    assert all(segment.start == 0 for segment in plan.of(Kind.PREFIX)) and len(list(plan.of(Kind.PREFIX))) <= 1
    assert sum(plan.count(kind) for kind in Kind) == len(prompt)
    if policy.is_exact:
        assert not plan.count(Kind.SPAN)
        assert plan.n_exact == len(prompt)
    if not policy.use_prefix:
        assert not plan.count(Kind.PREFIX)


@settings(deadline=None)
@given(stored=few_tokens, prompt=few_tokens)
def test_the_prefix_is_as_long_as_it_can_be(stored: list[int], prompt: list[int]) -> None:
    shared = next((i for i, (a, b) in enumerate(zip(stored, prompt, strict=False)) if a != b), min(len(stored), len(prompt)))
    assert make_plan(prompt, store_of(rows_of(stored)), PREFIX).count(Kind.PREFIX) == min(shared, len(prompt) - 1)
