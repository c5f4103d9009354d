"""`PrefillSpeed`: how long computing prompt tokens takes here, learnt from prefills. Arithmetic only; the store remembers it.

A token costs the same work in the weights wherever it stands, and in attention more for every token before it. So a prefill takes
`rate · (tokens + growth · pairs)`, where pairs count every token with each one that it sees. Both numbers are fitted to the samples: the
newest count most, since a machine's load changes, and the rate is a median, since no single prefill decides. The first of a process
also reads weights from the disk, and a short one pays for the start of a batch. Loading and placing never count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LEAST_TOKENS = 16  # fewer say more about the start of a batch than about speed
ENOUGH_TOKENS = 256  # once these are measured here, earlier processes no longer count: their threads or machine may differ
N_SAMPLES = 32
FIRST_WEIGHT = 0.1
NEWER_WEIGHT = 0.8  # of a sample against the one after it
GROWTHS = np.concatenate([[0.0], np.geomspace(1e-5, 3e-3, 40)])  # of a token's cost, by each token before it, that are tried
LIKELY_GROWTH = 2e-4  # believed in where the samples do not say: small models on processors
BELIEF = 0.02  # how much: the mean error in the logarithm that a growth e times as large has to make up for
AS_GOOD = 0.03  # growths that explain the samples by so much worse are possible too
LEAST_ERROR, FIRST_ERROR = 0.1, 0.4  # of many samples that agree, of a single one

Sample = tuple[int, int, float]  # first token computed, tokens computed, milliseconds
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Milliseconds; eight of ten prefills should lie within `[low_ms, high_ms]`. All are 0 while nothing is known."""

    ms: float = 0.0
    low_ms: float = 0.0
    high_ms: float = 0.0


class PrefillSpeed:
    """Samples of this process, behind those that earlier processes left."""

    def __init__(self, remembered: Iterable[Sample] = ()) -> None:
        self._remembered = list(remembered)
        self._first: Sample | None = None
        self._own: list[Sample] = []

    def learn(self, start: int, n_tokens: int, ms: float) -> None:
        """A prefill computed the tokens `[start, start + n_tokens)` in every layer in `ms` milliseconds."""
        if n_tokens < LEAST_TOKENS or ms <= 0:
            return
        if self._first is None:
            self._first = (start, n_tokens, ms)
        else:
            self._own = [*self._own, (start, n_tokens, ms)][-N_SAMPLES:]

    @property
    def has_news(self) -> bool:
        """Whether `samples` holds more than was remembered."""
        return bool(self._own)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """What a later process should know: the newest samples, without the first of this process."""
        return tuple([*self._remembered, *self._own][-N_SAMPLES:])

    @property
    def ms_per_token(self) -> float:
        """Milliseconds of a prompt token that has hardly any before it, 0 while nothing is known."""
        return self.estimate(0, LEAST_TOKENS).ms / LEAST_TOKENS

    def estimate(self, start: int, end: int) -> Estimate:
        """How long computing the tokens `[start, end)` of a prompt would take."""
        known, weights = self._weighed()
        if not known or end <= start:
            return Estimate()
        starts, sizes, ms = np.array(known, dtype=np.float64).T
        amounts = _amounts(starts, starts + sizes)  # for each growth, of each sample
        rates = np.log(ms / amounts)
        middles = _quantile(rates, weights, 0.5)
        misfit = (np.abs(rates - middles[:, None]) * weights).sum(axis=1) / weights.sum()
        misfit += BELIEF * np.abs(np.log(np.maximum(GROWTHS, GROWTHS[1]) / LIKELY_GROWTH))
        best = int(misfit.argmin())
        times = np.exp(middles) * _amounts(np.array([start]), np.array([end]))[:, 0]
        possible = times[misfit <= misfit[best] + AS_GOOD]
        around = rates[best : best + 1] - middles[best]
        error = LEAST_ERROR + (FIRST_ERROR - LEAST_ERROR) / len(known)
        low = min(possible.min(), times[best] * np.exp(_quantile(around, weights, 0.1)[0])) / (1 + error)
        high = max(possible.max(), times[best] * np.exp(_quantile(around, weights, 0.9)[0])) * (1 + error)
        return Estimate(float(times[best]), float(low), float(high))

    def _weighed(self) -> tuple[list[Sample], Floats]:
        """The samples that count, and how much each does."""
        own = self._own
        known = own if sum(n for _, n, _ in own) >= ENOUGH_TOKENS else [*self._remembered, *own]
        weights = [n * NEWER_WEIGHT**age for age, (_, n, _) in zip(range(len(known) - 1, -1, -1), known, strict=True)]
        if self._first is not None:
            known, weights = [self._first, *known], [self._first[1] * FIRST_WEIGHT, *weights]
        return known, np.array(weights)


def _amounts(starts: Floats, ends: Floats) -> Floats:
    """What is to be computed of `[start, end)`, in tokens that have none before them: a row for each growth."""
    n = ends - starts
    return n + GROWTHS[:, None] * n * (starts + ends) / 2


def _quantile(values: Floats, weights: Floats, share: float) -> Floats:
    """Of each row of `values`, whose columns weigh `weights`. A turn asks before its first token, so no row is a call of its own."""
    order = np.argsort(values, axis=1)
    places = (weights[order].cumsum(axis=1) < weights.sum() * share).sum(axis=1)
    found: Floats = np.take_along_axis(values, order, axis=1)[np.arange(len(values)), places]
    return found
