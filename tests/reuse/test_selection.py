"""Laws of what the sweep decides on plain arrays: who is selected, how deviation is measured, how sets of tokens are joined."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

from relaylite.engine.sweep import Active
from relaylite.reuse.selection import LEAD_TOKENS, angle, score, select, thinned, weighted

EIGHTHS = st.integers(0, 16).map(lambda n: n / 8)  # their sums are exact, so that a mean does not depend on the order
DEVIATIONS = stn.arrays(np.float32, st.integers(0, 60), elements=st.one_of(EIGHTHS, st.just(np.nan)))
TAU = st.floats(0, 4)
SHARE = st.floats(0, 1)


@given(DEVIATIONS, TAU, SHARE)
def test_selected_are_the_unknown_and_the_largest_above_the_threshold(deviation: np.ndarray, tau: float, share: float) -> None:
    selected = select(deviation, tau, share)
    unknown = np.isnan(deviation)
    assert selected.shape == deviation.shape and selected.dtype == bool
    assert selected[unknown].all()
    known, taken = deviation[~unknown], selected[~unknown]
    assert taken.sum() <= int(share * len(known))
    if len(known):
        threshold = tau * known.mean()
        assert (known[taken] > threshold).all()
        left = known[~taken]
        if taken.any() and len(left):
            assert left.max() <= known[taken].min() or (left[left > known[taken].min()] <= threshold).all()
        if taken.sum() < int(share * len(known)):
            assert not (left > threshold).any(), "there was room for more"


@given(DEVIATIONS, TAU, SHARE, SHARE)
def test_a_larger_share_keeps_whom_a_smaller_one_selected(deviation: np.ndarray, tau: float, a: float, b: float) -> None:
    small, large = select(deviation, tau, min(a, b)), select(deviation, tau, max(a, b))
    assert (large | ~small).all()


@given(DEVIATIONS, TAU, TAU, SHARE)
def test_a_lower_threshold_selects_no_fewer(deviation: np.ndarray, a: float, b: float, share: float) -> None:
    assert select(deviation, min(a, b), share).sum() >= select(deviation, max(a, b), share).sum()


def test_a_token_at_the_threshold_is_not_selected() -> None:
    assert not select(np.full(4, 0.5, np.float32), 1.0, 1.0).any()
    assert not select(np.zeros(4, np.float32), 0.0, 1.0).any()


@given(DEVIATIONS, TAU)
def test_a_share_of_nothing_selects_the_unknown_alone(deviation: np.ndarray, tau: float) -> None:
    assert np.array_equal(select(deviation, tau, 0.0), np.isnan(deviation))


@given(stn.arrays(np.float32, st.integers(0, 60), elements=st.floats(0.125, 2, width=32)))
def test_everything_is_selected_by_no_threshold_and_a_whole_share(deviation: np.ndarray) -> None:
    assert select(deviation, 0.0, 1.0).all()


@given(DEVIATIONS, TAU, SHARE, st.randoms(use_true_random=False))
def test_order_of_tokens_does_not_matter(deviation: np.ndarray, tau: float, share: float, random: object) -> None:
    order = np.arange(len(deviation))
    random.shuffle(order)  # type: ignore[attr-defined]
    selected = select(deviation, tau, share)
    moved = select(deviation[order], tau, share)
    assert np.array_equal(np.sort(deviation[order][moved]), np.sort(deviation[selected]), equal_nan=True)


@given(DEVIATIONS, st.floats(0, 4), st.integers(0, 2**31))
def test_a_score_is_the_deviation_and_a_lead_that_fades(deviation: np.ndarray, lead: float, seed: int) -> None:
    offsets = np.random.default_rng(seed).integers(0, 500, len(deviation)).astype(np.int32)
    scores, bare = score(deviation, offsets, lead), score(deviation, offsets, 0.0)
    known = ~np.isnan(deviation)
    assert np.array_equal(np.isnan(scores), ~known)
    assert np.allclose((scores - bare)[known], lead * np.exp(-offsets[known] / LEAD_TOKENS), atol=1e-3)
    if known.any() and deviation[known].mean() > 0:
        assert np.allclose(bare[known] * deviation[known].mean(), deviation[known], atol=1e-3)


def test_among_equals_the_start_of_a_span_is_selected() -> None:
    scores = score(np.full(6, 0.5, np.float32), np.array([0, 1, 2, 0, 1, 2], np.int32), 0.5)
    assert np.flatnonzero(select(scores, 0.0, 2 / 6)).tolist() == [0, 3]


@given(SHARE, SHARE, st.integers(0, 100_000), st.floats(0, 0.3))
def test_a_share_gets_thinner_with_length_alone(a: float, b: float, n: int, thinning: float) -> None:
    assert thinned(0.0, n, thinning) == 0.0 and thinned(1.0, n, thinning) == 1.0
    assert thinned(a, n, 0.0) == a and (n > 256 or thinned(a, n, thinning) == a)
    assert thinned(min(a, b), n, thinning) <= thinned(max(a, b), n, thinning) <= max(a, b)
    assert thinned(a, 2 * n, thinning) <= thinned(a, n, thinning)


MASSES = st.floats(0.125, 16, width=32)
POWER = st.floats(0, 2)


@st.composite
def attended(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and the attention paid to each token."""
    scores = draw(DEVIATIONS)
    return scores, draw(stn.arrays(np.float32, len(scores), elements=MASSES))


@given(attended(), POWER, st.floats(0.25, 8))
def test_weighing_counts_attention_in_multiples_of_its_mean(pair: tuple[np.ndarray, np.ndarray], power: float, factor: float) -> None:
    scores, mass = pair
    got = weighted(scores, mass, power)
    assert got.dtype == np.float32 and np.array_equal(np.isnan(got), np.isnan(scores))
    assert np.allclose(got, weighted(scores, mass * np.float32(factor), power), rtol=1e-3, equal_nan=True)
    assert np.allclose(got, scores * (mass / mean_of(mass)) ** power, rtol=1e-3, equal_nan=True)


def mean_of(mass: np.ndarray) -> float:
    return float(np.mean(mass, dtype=np.float64)) if len(mass) else 1.0


@given(attended(), POWER)
def test_no_power_and_equal_attention_leave_scores_as_they_are(pair: tuple[np.ndarray, np.ndarray], power: float) -> None:
    scores, mass = pair
    assert np.array_equal(weighted(scores, mass, 0.0), scores, equal_nan=True)
    assert np.allclose(weighted(scores, np.full_like(mass, 3.0), power), scores, rtol=1e-4, equal_nan=True)


@given(attended(), st.floats(0.5, 2), st.data())
def test_a_token_that_more_attention_is_paid_to_ranks_no_lower(
    pair: tuple[np.ndarray, np.ndarray], power: float, data: st.DataObject
) -> None:
    scores, mass = pair
    if not len(scores):
        return
    token = data.draw(st.integers(0, len(scores) - 1))
    more = mass.copy()
    more[token] *= 2
    others = np.delete(np.arange(len(scores)), token)
    before, after = weighted(scores, mass, power), weighted(scores, more, power)
    assert not (after[token] <= after[others] * (1 - 1e-4))[before[token] > before[others]].any()


def test_nothing_attended_is_nothing_selected_but_what_is_unknown() -> None:
    scores = weighted(np.array([1, 2, np.nan], np.float32), np.zeros(3, np.float32), 1.0)
    assert select(scores, 0.0, 1.0).tolist() == [False, False, True]


ROWS = stn.arrays(np.float32, st.tuples(st.integers(1, 8), st.just(4)), elements=st.floats(-100, 100, width=32))


@given(ROWS, st.floats(0.5, 50))
def test_angle_ignores_length_and_is_none_to_itself(a: np.ndarray, factor: float) -> None:
    long_enough = np.linalg.norm(a, axis=1) > 1e-2
    assert np.abs(angle(a, a * np.float32(factor))[long_enough]).max(initial=0) < 1e-4
    assert np.abs(angle(a, -a)[long_enough] - 2).max(initial=0) < 1e-4


@given(ROWS, st.integers(0, 7), st.integers(0, 2**31))
def test_angle_is_symmetric_bounded_and_unknown_where_either_is(a: np.ndarray, row: int, seed: int) -> None:
    b = np.random.default_rng(seed).standard_normal(a.shape).astype(np.float32)
    assert np.allclose(angle(a, b), angle(b, a), atol=1e-5)
    assert ((angle(a, b) > -1e-4) & (angle(a, b) < 2 + 1e-4)).all()
    b[row % len(b), 1] = np.nan
    assert np.flatnonzero(np.isnan(angle(a, b))).tolist() == np.flatnonzero(np.isnan(angle(b, a))).tolist() == [row % len(b)]


def test_angle_of_right_angles_is_one() -> None:
    assert angle(np.array([[1, 0]], np.float32), np.array([[0, 3]], np.float32)) == 1


@st.composite
def disjoint(draw: st.DrawFn) -> tuple[Active, Active]:
    positions = draw(st.lists(st.integers(0, 1000), min_size=0, max_size=40, unique=True))
    n = draw(st.integers(0, len(positions)))
    has_hidden = draw(st.booleans())

    def active(of: list[int]) -> Active:
        where = np.array(sorted(of), np.int32)
        return Active(where, np.stack([where, -where], axis=1).astype(np.float32) if has_hidden else None)

    return active(positions[:n]), active(positions[n:])


@given(disjoint())
def test_merged_tokens_ascend_and_keep_their_own_states(pair: tuple[Active, Active]) -> None:
    a, b = pair
    both = a.merged(b)
    assert both.positions.tolist() == sorted([*a.positions.tolist(), *b.positions.tolist()])
    if a.hidden is None:
        assert both.hidden is None
    else:
        assert (
            both.hidden is not None
            and np.array_equal(both.hidden[:, 0], both.positions)
            and np.array_equal(both.hidden[:, 1], -both.positions)
        )
    assert np.array_equal(b.merged(a).positions, both.positions)


@given(disjoint())
def test_what_was_merged_comes_apart_again(pair: tuple[Active, Active]) -> None:
    a, b = pair
    both = a.merged(b)
    again = both.only(np.isin(both.positions, a.positions))
    assert np.array_equal(again.positions, a.positions)
    if a.hidden is not None:
        assert again.hidden is not None and np.array_equal(again.hidden, a.hidden)
