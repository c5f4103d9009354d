"""What is said of measured values: medians with spread, shares with intervals, distances of distributions. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

N_RESAMPLES = 2000
_Z = 1.959964  # 95 %


@dataclass(frozen=True, slots=True)
class Spread:
    """`ci_low`, `ci_high`: bootstrapped 95 % confidence interval of the median."""

    median: float
    q1: float
    q3: float
    ci_low: float
    ci_high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % confidence interval."""

    value: float
    ci_low: float
    ci_high: float


def spread(values: npt.ArrayLike) -> Spread:
    """Median, quartiles and a bootstrapped interval; the same for the same values."""
    data = np.asarray(values, np.float64)
    medians = np.median(data[_resamples(len(data))], axis=1)
    q1, median, q3 = np.quantile(data, [0.25, 0.5, 0.75])
    low, high = np.quantile(medians, [0.025, 0.975])
    return Spread(float(median), float(q1), float(q3), float(low), float(high))


def ratio_of_means(values: npt.ArrayLike, base: npt.ArrayLike) -> Estimate | None:
    """Mean of `values` against mean of `base`, paired one by one; None if the base is 0 (there is nothing to compare with)."""
    above, below = np.asarray(values, np.float64), np.asarray(base, np.float64)
    if not below.mean() > 0:
        return None
    picks = _resamples(len(above))
    sums = below[picks].sum(axis=1)
    ratios = above[picks].sum(axis=1)[sums > 0] / sums[sums > 0]
    low, high = np.quantile(ratios, [0.025, 0.975])
    return Estimate(float(above.mean() / below.mean()), float(low), float(high))


def wilson(n_right: int, n: int) -> Estimate:
    """Share of right answers with Wilson's interval."""
    share = n_right / n
    middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return Estimate(share, max(middle - half, 0.0), min(middle + half, 1.0))


def divergence(reference: npt.NDArray[np.float32], other: npt.NDArray[np.float32]) -> Values:
    """Kullback–Leibler divergence of the next-token distributions, in nats, from logits `[n, n_vocab]` to `[n]`; never negative."""
    log_p, log_q = _log_softmax(reference), _log_softmax(other)
    loss: Values = (np.exp(log_p) * (log_p - log_q)).sum(axis=1)
    return np.maximum(loss, 0.0)


def _log_softmax(logits: npt.NDArray[np.float32]) -> Values:
    shifted: Values = logits - logits.max(axis=1, keepdims=True).astype(np.float64)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def _resamples(n: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng(0).integers(0, n, (N_RESAMPLES, n))
