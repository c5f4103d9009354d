"""Which span tokens are recomputed: pure functions on what was measured of them. `engine.sweep` runs the layers (docs/method.md)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from relaylite.reuse.rows import Tokens

F32 = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
LEAD_TOKENS = 30.0  # over which nearness to the start of a span fades by 1/e
WHOLE_SHARE_TOKENS = 256  # up to so many tokens a share is taken as it is


def angle(a: F32, b: F32, n_head: int = 1) -> F32:
    """1 − cosine of the rows of two matrices `[n, width]`, by heads side by side and averaged over them; NaN where either holds NaN."""
    a, b = (x.astype(np.float32).reshape(len(x), n_head, -1) for x in (a, b))
    norms = np.linalg.norm(a, axis=2) * np.linalg.norm(b, axis=2)
    return np.asarray((1.0 - np.einsum("ijk,ijk->ij", a, b) / np.maximum(norms, 1e-12)).mean(axis=1), np.float32)


def score(deviation: F32, offsets: Tokens, lead: float) -> F32:
    """How much each token asks to be recomputed: its deviation in multiples of the mean, and up to `lead` more at the start of its span.

    What stands first in a span has the changed prefix right before it, and everything behind it reads its rows. `deviation` float32 `[n]`,
    NaN where nothing was measured, and so in the score; `offsets` int32 `[n]` from the start of the token's span.
    """
    known = deviation[~np.isnan(deviation)]
    mean = float(known.mean()) if known.size else 0.0
    return np.asarray(deviation / max(mean, 1e-12) + lead * np.exp(-offsets / LEAD_TOKENS), np.float32)


def thinned(max_share: float, n: int, thinning: float) -> float:
    """`max_share` for `n` tokens: to the power of 1 + `thinning` for each doubling beyond 256, which leaves nothing and all as they are."""
    n_doublings = max(0.0, math.log2(max(n, 1) / WHOLE_SHARE_TOKENS))
    return float(max_share ** (1 + thinning * n_doublings))


def choose(scores: F32, tau: float, max_share: float) -> Mask:
    """Tokens whose score exceeds `tau` times the mean; of those at most `max_share` of all, the largest ones.

    `scores` float32 `[n]`; NaN (nothing was measured) is always chosen and counts towards no mean.
    """
    unknown = np.isnan(scores)
    known = scores[~unknown]
    if not known.size:
        return unknown
    chosen = np.zeros(len(scores), bool)
    chosen[~unknown] = known > tau * known.mean()
    n_most = int(max_share * known.size)
    if np.count_nonzero(chosen) > n_most:
        order = np.argsort(np.where(chosen, -scores, np.inf), kind="stable")
        chosen[:] = False
        chosen[order[:n_most]] = True
    return chosen | unknown
