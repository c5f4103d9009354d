"""Log probabilities of tokens from their logits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def logprob_of(logits: npt.NDArray[np.float32], token: int, n_top: int) -> tuple[float, tuple[tuple[int, float], ...]]:
    """The natural logarithm of the token's probability, and the `n_top` likeliest tokens with theirs, the likeliest first.

    Of tokens that are equally likely the one with the lower id comes first. `logits` are float32 `[n_vocab]` and stay as they are.
    """
    highest = float(logits.max())
    log_sum = highest + float(np.log(np.exp(logits - highest).sum(dtype=np.float64)))
    n_top = min(n_top, len(logits))
    if not n_top:
        return float(logits[token]) - log_sum, ()
    lowest = np.partition(logits, -n_top)[-n_top]
    likeliest = np.flatnonzero(logits >= lowest)
    likeliest = likeliest[np.argsort(-logits[likeliest], kind="stable")][:n_top]
    return float(logits[token]) - log_sum, tuple((int(each), float(logits[each]) - log_sum) for each in likeliest)
