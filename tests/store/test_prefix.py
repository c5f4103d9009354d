"""What is found from position 0 on: as much as there is, with the rows that were put in, stored once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sample_rows import CAPTURE, LAYOUT, assert_match, row_bytes, rows_of

from relaylite.reuse.rows import RowLayout
from relaylite.store import Store

PLENTY = 1 << 30
texts = st.lists(st.integers(0, 2), min_size=1, max_size=12)


def naive_prefix(stored: list[tuple[list[int], int]], tokens: list[int], exact: bool) -> int:
    best = 0
    for text, n_exact in stored:
        limit = n_exact if exact else len(text)
        n = 0
        while n < min(limit, len(tokens)) and text[n] == tokens[n]:
            n += 1
        best = max(best, n)
    return best


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(texts, st.integers(0, 12)), max_size=8), texts, st.booleans())
def test_the_longest_stored_prefix_is_found_and_holds_the_right_rows(stored, tokens, exact):
    stored = [(text, min(n_exact, len(text))) for text, n_exact in stored]
    store = Store(LAYOUT, PLENTY)
    for text, n_exact in stored:
        store.put(rows_of(text, n_exact=n_exact))
    match = store.prefix(np.array(tokens, np.int32), exact=exact)
    n = naive_prefix(stored, tokens, exact)
    assert (len(match) if match else 0) == n
    if match:
        assert match.start == 0
        assert_match(match, tokens, rows_of(tokens))
        if exact:
            assert match.rows.n_exact - match.offset >= len(match)


@settings(max_examples=100, deadline=None)
@given(st.lists(texts, max_size=10))
def test_shared_exact_prefixes_are_stored_once(stored):
    store = Store(LAYOUT, PLENTY)
    for text in stored:
        store.put(rows_of(text))
    distinct = {tuple(text[: n + 1]) for text in stored for n in range(len(text))}
    assert store.stats().ram_bytes == len(distinct) * (LAYOUT.token_bytes + 4)


def test_putting_the_same_again_changes_nothing():
    store = Store(LAYOUT, PLENTY)
    store.put(rows_of([1, 2, 3, 4], n_exact=2))
    before = store.stats()
    store.put(rows_of([1, 2, 3, 4], n_exact=2))
    assert (store.stats().ram_bytes, store.stats().spans) == (before.ram_bytes, before.spans)


def test_exact_only_stops_where_relayed_rows_begin():
    store = Store(LAYOUT, PLENTY)
    store.put(rows_of([1, 2, 3, 4], n_exact=2, salt="relayed"))
    prompt = np.array([1, 2, 3, 4, 5], np.int32)
    assert len(store.prefix(prompt, exact=True)) == 2
    assert len(store.prefix(prompt, exact=False)) == 4


def test_exact_rows_win_over_relayed_ones_of_the_same_tokens():
    store = Store(LAYOUT, PLENTY)
    store.put(rows_of([1, 2, 3, 4], n_exact=1, salt="relayed"))
    store.put(rows_of([1, 2, 3, 4]))
    match = store.prefix(np.array([1, 2, 3, 4], np.int32), exact=False)
    assert_match(match, [1, 2, 3, 4], rows_of([1, 2, 3, 4]))


def test_newer_relayed_rows_take_the_place_of_older_ones():
    store = Store(LAYOUT, PLENTY)
    store.put(rows_of([1, 2, 3, 4], n_exact=1, salt="old"))
    newer = rows_of([1, 2, 3, 4], n_exact=1, salt="new")
    store.put(newer)
    assert_match(store.prefix(np.array([1, 2, 3, 4], np.int32), exact=False), [1, 2, 3, 4], newer)
    assert store.stats().ram_bytes == newer.n_bytes


def test_stored_rows_gain_states_captured_later_and_lose_none():
    store = Store(LAYOUT, PLENTY)
    store.put(rows_of([1, 2, 3, 4], captured=[(0, 2)]))
    store.put(rows_of([1, 2, 3, 4, 5], captured=[(3, 5)]))
    match = store.prefix(np.array([1, 2, 3, 4, 5], np.int32), exact=True)
    state = match.rows.states[CAPTURE][match.offset : match.offset + len(match)]
    assert np.isnan(state[:, 0]).tolist() == [False, False, True, False, False]
    assert state[4].tolist() == [5, 6, 7, 8]


def test_no_rows_are_nothing():
    """What a model whose cache cannot be read leaves."""
    bare = RowLayout((), (), "bare")
    for layout in (LAYOUT, bare):
        store = Store(layout, PLENTY)
        store.put(rows_of([], layout=layout))
        assert store.stats().spans == 0
        assert store.prefix(np.array([1, 2], np.int32), exact=True) is None
        assert store.spans(np.array([1, 2], np.int32), 0, 1) == []


def test_rows_of_another_layout_are_refused():
    store = Store(LAYOUT, PLENTY)
    other = RowLayout(LAYOUT.k_bytes, LAYOUT.v_bytes, "f2")
    with pytest.raises(ValueError, match="another layout"):
        store.put(rows_of([1, 2, 3], layout=other))


def test_rows_handed_out_outlive_their_eviction():
    text = list(range(100, 140))
    store = Store(LAYOUT, rows_of(text).n_bytes)
    store.put(rows_of(text))
    match = store.prefix(np.array(text, np.int32), exact=True)
    store.put(rows_of(list(range(200, 240))))
    assert store.prefix(np.array(text, np.int32), exact=True) is None
    assert row_bytes(match.rows, match.offset, len(match)) == row_bytes(rows_of(text), 0, 40)


@settings(max_examples=100, deadline=None)
@given(st.lists(texts, min_size=1, max_size=12), st.integers(0, 900))
def test_the_budget_holds_whatever_is_put(stored, budget):
    store = Store(LAYOUT, budget)
    for text in stored:
        store.put(rows_of(text, captured=[(0, 1)]))
        assert store.stats().ram_bytes <= budget
        match = store.prefix(np.array(text, np.int32), exact=True)
        if match:
            assert_match(match, text, rows_of(text))
