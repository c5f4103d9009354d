"""Which span tokens are selected, that is, recomputed. Pure functions on what was measured of them (docs/method.md, step 4).

`engine.sweep` runs the layers.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from relaylite.reuse.rows import Mask, Tokens

F32 = npt.NDArray[np.float32]
LEAD_TOKENS = 30.0  # over which nearness to the start of a span fades by 1/e
WHOLE_SHARE_TOKENS = 256  # up to so many tokens a share is taken as it is


def angle(a: F32, b: F32, n_head: int = 1) -> F32:
    """float32 `[n]`: 1 − cosine of the rows of two matrices `[n, width]`, head by head, averaged over heads. NaN where either holds NaN."""
    a, b = (x.astype(np.float32).reshape(len(x), n_head, -1) for x in (a, b))
    norms = np.linalg.norm(a, axis=2) * np.linalg.norm(b, axis=2)
    return np.asarray((1.0 - np.einsum("ijk,ijk->ij", a, b) / np.maximum(norms, 1e-12)).mean(axis=1), np.float32)


def score(deviation: F32, offsets: Tokens, lead: float) -> F32:
    """float32 `[n]`, by which `select` ranks tokens: the deviation in multiples of its mean, and up to `lead` more at the start of a span.

    What stands first in a span has the new text right before it, and everything behind it reads its rows. `deviation` is float32
    `[n]`, NaN where nothing was measured; the score is NaN there, too. `offsets` is int32 `[n]`: each token's place in its span.
    """
    known = deviation[~np.isnan(deviation)]
    mean = float(known.mean()) if known.size else 0.0
    return np.asarray(deviation / max(mean, 1e-12) + lead * np.exp(-offsets / LEAD_TOKENS), np.float32)


def weighted(scores: F32, mass: F32, power: float) -> F32:
    """float32 `[n]`: scores times what the suffix pays attention to, `mass` float32 `[n]` in multiples of its mean, to the `power`.

    A power of 0 leaves the scores as they are. NaN stays NaN.
    """
    mean = float(mass.mean()) if mass.size else 0.0
    return np.asarray(scores * (mass / max(mean, 1e-12)) ** power, np.float32)


def thinned(max_share: float, n: int, thinning: float) -> float:
    """`max_share` for `n` tokens: raised to the power of 1 + `thinning` for each doubling beyond 256 tokens. Shares of 0 and 1 stay."""
    n_doublings = max(0.0, math.log2(max(n, 1) / WHOLE_SHARE_TOKENS))
    return float(max_share ** (1 + thinning * n_doublings))


def select(scores: F32, tau: float, max_share: float) -> Mask:
    """bool `[n]`: tokens whose score exceeds `tau` times the mean. If these are more than `max_share` of all, those of the highest scores.

    `scores` float32 `[n]`. A score of NaN (nothing was measured) is always selected, and counts neither for the mean nor for the share.
    """
    unknown = np.isnan(scores)
    known = scores[~unknown]
    if not known.size:
        return unknown
    selected = np.zeros(len(scores), bool)
    selected[~unknown] = known > tau * known.mean()
    n_most = int(max_share * known.size)
    if np.count_nonzero(selected) > n_most:
        order = np.argsort(np.where(selected, -scores, np.inf), kind="stable")
        selected[:] = False
        selected[order[:n_most]] = True
    return selected | unknown
