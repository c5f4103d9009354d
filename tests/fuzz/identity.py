"""What stands at a position, told from its row alone: in layer 0 a row depends on its token and its position, on nothing before it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from support.live_engine import LiveEngine, plan_of
from support.numpy_rope import Rope

from relaylite.reuse.policies import FULL
from relaylite.reuse.rows import Rows

F32 = npt.NDArray[np.float32]
ERROR = 3e-3  # of a row's length, for rows that were turned a few times


class Identity:
    """K (turned back to position 0) and V of every token of a vocabulary, in layer 0. For models with rows of F32."""

    def __init__(self, live: LiveEngine, rope: Rope) -> None:
        self._live, self._rope = live, rope
        n_vocab, step = live.engine.info.n_vocab, live.engine.info.n_ctx // 2
        runs = [live.full_rows(range(first, min(first + step, n_vocab))) for first in range(0, n_vocab, step)]
        self._k = np.concatenate([self._at_zero(run) for run in runs])
        self._v = np.concatenate([live.v(run, 0) for run in runs])

    def _at_zero(self, rows: Rows) -> F32:
        k = self._live.k(rows, 0)
        turned = [self._rope.turn(k[i : i + 1], -rows.position - i) for i in range(len(rows))]
        return np.concatenate(turned).astype(np.float32) if turned else k

    def check(self, rows: Rows) -> None:
        """Every position holds the rows of the token that is said to be there."""
        for known, held in ((self._k, self._at_zero(rows)), (self._v, self._live.v(rows, 0))):
            expected = known[rows.tokens]
            error = np.linalg.norm(held - expected, axis=1) / np.maximum(np.linalg.norm(expected, axis=1), 1e-6)
            assert error.max(initial=0.0) < ERROR, f"position {int(error.argmax())} of {len(rows)} holds another row ({error.max():.3f})"


def live_rows(live: LiveEngine) -> Rows:
    return live.engine.harvest("")


def is_usable(live: LiveEngine, tokens: list[int]) -> bool:
    """A turn on an engine that went through anything is what it is on a new one; `tokens` fit one batch."""
    return bool(np.isfinite(live.logits_of(plan_of(FULL, tokens))).all())
