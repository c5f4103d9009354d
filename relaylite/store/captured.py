"""`captured_rows`: which tokens have the hidden states that relaying needs. Others hold NaN, or an F16 that overflowed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from relaylite.reuse.rows import Mask, Rows, is_finite


def captured_rows(rows: Rows, names: Iterable[str] = ()) -> Mask:
    """bool `[n]`: the rows that have all of these states; without names, those that have every state that any of them has."""
    wanted = set(names) or set(rows.states)
    if not wanted or not wanted <= set(rows.states):
        return np.zeros(len(rows), bool)
    whole: Mask = np.logical_and.reduce([is_finite(rows.states[name]) for name in wanted])
    return whole


def ranges(mask: Mask) -> list[tuple[int, int]]:
    """The stretches `[start, end)` in which `mask` holds."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    return [(int(start), int(end)) for start, end in edges.reshape(-1, 2)]
