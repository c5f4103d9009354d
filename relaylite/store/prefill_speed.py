"""`PrefillSpeed`: how long computing one prompt token takes here, learnt from prefills. Arithmetic only; the store remembers it.

No single prefill decides, since the first of a process also reads weights from the disk, and a short one pays for the start of a batch.
It is the median over all tokens computed. Loading and placing never count.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

LEAST_TOKENS = 16  # fewer say more about the start of a batch than about speed
ENOUGH_TOKENS = 256  # once these are measured here, earlier processes no longer count: their threads or machine may differ
N_SAMPLES = 32
FIRST_WEIGHT = 0.1

Sample = tuple[int, float]  # tokens computed, milliseconds


class PrefillSpeed:
    """Samples of this process, behind those that earlier processes left."""

    def __init__(self, remembered: Iterable[Sample] = ()) -> None:
        self._remembered = list(remembered)
        self._first: Sample | None = None
        self._own: list[Sample] = []

    def learn(self, n_tokens: int, ms: float) -> None:
        """A prefill computed `n_tokens` in every layer in `ms` milliseconds."""
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
        """What a later process should know: the newest samples, without the first of this process."""
        return tuple([*self._remembered, *self._own][-N_SAMPLES:])

    @property
    def ms_per_token(self) -> float:
        """Milliseconds of a prompt token, 0 while nothing is known."""
        known = self._own if sum(n for n, _ in self._own) >= ENOUGH_TOKENS else [*self._remembered, *self._own]
        weighed = [(ms / n, float(n)) for n, ms in known]
        if self._first is not None:
            n, ms = self._first
            weighed.append((ms / n, n * FIRST_WEIGHT))
        if not weighed:
            return 0.0
        speeds, weights = np.array(sorted(weighed)).T
        return float(speeds[np.searchsorted(weights.cumsum(), weights.sum() / 2)])
