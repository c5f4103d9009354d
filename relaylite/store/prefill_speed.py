"""`PrefillSpeed`: what computing one prompt token takes here, learnt from prefills. Arithmetic only; the store remembers it.

The first prefill of a process also reads weights from the disk and short ones start a batch for little, so no single one decides:
it is the median over all tokens computed. Loading and placing never count.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

LEAST_TOKENS = 16  # fewer say more about the start of a batch than about speed
ENOUGH_TOKENS = 256  # measured in this process, earlier ones are no longer asked: threads or machine may differ
N_SAMPLES = 32
FIRST_WEIGHT = 0.1

Sample = tuple[int, float]  # tokens computed, milliseconds


class PrefillSpeed:
    """Samples of this process, after those that earlier ones left."""

    def __init__(self, remembered: Iterable[Sample] = ()) -> None:
        self._remembered = list(remembered)
        self._first: Sample | None = None
        self._own: list[Sample] = []

    def learn(self, n_tokens: int, ms: float) -> None:
        """A prefill computed so many tokens whole in this time."""
        if n_tokens < LEAST_TOKENS:
            return
        if self._first is None:
            self._first = (n_tokens, ms)
        else:
            self._own = [*self._own, (n_tokens, ms)][-N_SAMPLES:]

    @property
    def has_news(self) -> bool:
        """Whether `samples` holds more than was remembered."""
        return bool(self._own)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """What a later process should know: the newest ones, without this one's first."""
        return tuple([*self._remembered, *self._own][-N_SAMPLES:])

    @property
    def ms_per_token(self) -> float:
        """0 while nothing is known."""
        known = self._own if sum(n for n, _ in self._own) >= ENOUGH_TOKENS else [*self._remembered, *self._own]
        weighed = [(ms / n, float(n)) for n, ms in known]
        if self._first is not None:
            n, ms = self._first
            weighed.append((ms / n, n * FIRST_WEIGHT))
        if not weighed:
            return 0.0
        speeds, weights = np.array(sorted(weighed)).T
        return float(speeds[np.searchsorted(weights.cumsum(), weights.sum() / 2)])
