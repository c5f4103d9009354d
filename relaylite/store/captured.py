"""Which rows have their hidden states: a token that was not captured holds NaN."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from relaylite.rows import Rows

Mask = npt.NDArray[np.bool_]


def captured_rows(rows: Rows) -> Mask:
    """bool `[n]`: the rows that have every state that any of them has."""
    if not rows.states:
        return np.zeros(len(rows), bool)
    whole: Mask = ~np.any([np.isnan(state[:, 0]) for state in rows.states.values()], axis=0)
    return whole


def ranges(mask: Mask) -> list[tuple[int, int]]:
    """The stretches `[start, end)` in which `mask` holds."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    return [(int(start), int(end)) for start, end in edges.reshape(-1, 2)]
