"""Hidden states in the store: which rows count as captured when states overflow, or when another profile needs those of other layers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.sample_rows import CAPTURE, LAYOUT, assert_match, rows_of

from relaylite.reuse.rows import Rows
from relaylite.store import Store

PLENTY = 1 << 30
ANSWER = list(range(100, 160))
WRITTEN, READ = [1, 2, 3, *ANSWER], [4, 5, *ANSWER]
OTHER = "l_in-7"


def spans(store: Store, tokens: list[int]):
    return store.spans(np.array(tokens, np.int32), 0, 32)


def with_states_of_another_layer(rows: Rows) -> Rows:
    return replace(rows, states={OTHER: rows.states[CAPTURE] + np.float16(1)})


def relayed_with_other_states() -> Rows:
    """As a prompt leaves it that took ANSWER over from rows without the states it needed: computed anew, and captured."""
    return with_states_of_another_layer(rows_of(READ, n_exact=2, salt="relayed", captured=[(0, len(READ))]))


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("column", [0, 2])
def test_a_state_that_overflowed_is_none(number: float, column: int) -> None:
    store = Store(LAYOUT, PLENTY)
    rows = rows_of(WRITTEN, captured=[(0, len(WRITTEN))])
    rows.states[CAPTURE][20:40, column] = number
    store.put(rows)
    store.put(rows_of(READ, n_exact=2, salt="relayed", captured=[(2, len(READ))]))
    (span,) = spans(store, ANSWER)  # whole, from the run that has all states, though it is not exact
    assert np.isfinite(span.rows.states[CAPTURE][span.offset : span.offset + len(span)]).all()


def test_a_state_that_overflowed_is_replaced_by_one_that_did_not() -> None:
    store = Store(LAYOUT, PLENTY)
    rows = rows_of(WRITTEN, captured=[(0, len(WRITTEN))])
    rows.states[CAPTURE][20:40, 2] = np.inf
    store.put(rows)
    store.put(rows_of(WRITTEN, captured=[(10, 50)]))
    (span,) = spans(store, WRITTEN)
    assert np.isfinite(span.rows.states[CAPTURE]).all()


@pytest.fixture(params=["memory", "disk"])
def captured_under_an_old_profile(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    store.put(rows_of(WRITTEN, captured=[(0, len(WRITTEN))]))
    if request.param == "memory":
        return store
    store.close()
    return Store(LAYOUT, PLENTY, folder=tmp_path)


def test_rows_captured_for_another_profile_are_passed_over_once_others_have_what_is_needed(captured_under_an_old_profile: Store) -> None:
    store = captured_under_an_old_profile
    (before,) = spans(store, ANSWER)
    assert OTHER not in before.rows.states
    store.put(relayed_with_other_states())
    (after,) = spans(store, ANSWER)
    assert_match(after, ANSWER, relayed_with_other_states())
    assert np.isfinite(after.rows.states[OTHER][after.offset : after.offset + len(after)]).all()


def test_exact_rows_gain_the_states_of_a_new_profile_and_lose_the_old_ones(captured_under_an_old_profile: Store, tmp_path: Path) -> None:
    store = captured_under_an_old_profile
    store.put(with_states_of_another_layer(rows_of(WRITTEN, captured=[(0, len(WRITTEN))])))
    store.flush()
    for found in (store, Store(LAYOUT, PLENTY, folder=tmp_path)):
        (span,) = spans(found, WRITTEN)
        assert list(span.rows.states) == [OTHER] and span.rows.n_exact == len(WRITTEN)


@pytest.mark.parametrize("position", [0, 5])
def test_rows_of_no_tokens_change_nothing(position: int) -> None:
    store = Store(LAYOUT, PLENTY)
    store.put(rows_of(WRITTEN))
    store.put(rows_of([], position=position))
    (span,) = spans(store, ANSWER)
    assert_match(span, ANSWER, rows_of(WRITTEN))
    assert store.stats().spans == 1
