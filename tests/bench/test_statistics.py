"""Figures of measured values against values that were worked out by hand."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from relaylite.bench.statistics import divergence, ratio_of_means, spread, wilson


def test_a_spread_is_the_median_with_quartiles_around_it() -> None:
    found = spread([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (found.q1, found.median, found.q3) == (2.0, 3.0, 4.0)
    assert 1.0 <= found.ci_low < 3.0 < found.ci_high <= 5.0
    assert found == spread([5.0, 1.0, 2.0, 4.0, 3.0])


def test_more_values_make_the_interval_narrower() -> None:
    values = np.random.default_rng(1).normal(10, 1, 400)
    few, many = spread(values[:20]), spread(values)
    assert many.ci_high - many.ci_low < (few.ci_high - few.ci_low) / 2


def test_one_value_is_its_own_spread() -> None:
    assert spread([7.0]) == spread([7.0, 7.0, 7.0])


def test_ratio_of_means_is_not_the_mean_of_ratios() -> None:
    found = ratio_of_means([1.0, 1.0], [1.0, 9.0])
    assert found is not None and found.value == pytest.approx(0.2)
    assert found.ci_low == pytest.approx(1 / 9) and found.ci_high == pytest.approx(1.0)
    assert ratio_of_means([1.0, 2.0], [0.0, 0.0]) is None


@pytest.mark.parametrize(("n_right", "low", "high"), [(0, 0.0, 0.2775), (5, 0.2366, 0.7634), (10, 0.7225, 1.0)])
def test_wilson_intervals(n_right: int, low: float, high: float) -> None:
    found = wilson(n_right, 10)
    assert found.value == n_right / 10
    assert (found.ci_low, found.ci_high) == pytest.approx((low, high), abs=1e-4)


def test_divergence_of_two_known_distributions() -> None:
    half, biased = np.log([[0.5, 0.5]]).astype(np.float32), np.log([[0.9, 0.1]]).astype(np.float32)
    assert divergence(half, biased)[0] == pytest.approx(0.5 * log(0.5 / 0.9) + 0.5 * log(0.5 / 0.1), rel=1e-5)
    assert divergence(biased, half)[0] == pytest.approx(0.9 * log(0.9 / 0.5) + 0.1 * log(0.1 / 0.5), rel=1e-5)


def test_divergence_does_not_see_a_shift_and_is_never_negative() -> None:
    logits = np.random.default_rng(0).normal(0, 30, (5, 1000)).astype(np.float32)
    assert divergence(logits, logits).tolist() == [0.0] * 5
    assert divergence(logits, logits + 3).max() < 1e-5
    assert (divergence(logits, logits[::-1]) >= 0).all() and divergence(logits, logits[::-1])[0] > 1
