"""Which rows have the hidden states that relaying needs. A token that was not captured holds NaN; F16 may overflow, too."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from relaylite.reuse.rows import Rows

Mask = npt.NDArray[np.bool_]

_EXPONENT = np.uint16(0x7C00)  # all ones in an F16 that is infinite or not a number


def is_finite(state: npt.NDArray[np.float16]) -> Mask:
    """bool `[n]`: the rows of `[n, width]` that hold numbers only; twice as fast as numpy's own test of halves."""
    bits = np.ascontiguousarray(state).view(np.uint16)
    whole: Mask = ((bits & _EXPONENT) != _EXPONENT).all(axis=1)
    return whole


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
