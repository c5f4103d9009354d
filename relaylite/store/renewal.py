"""What newer rows of the same tokens behind the same tokens add to stored ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from relaylite.rows import Rows


def renewed(old: Rows, new: Rows, *, is_exact: bool) -> Rows:
    """`old` with what `new`, rows from position 0 on, knows better; `old` itself if that is nothing.

    Exact rows of equal tokens are interchangeable, so the old ones stay and only gain hidden states. Relayed rows depend on what
    they were relayed from, so the newer ones take their place where they differ.
    """
    start, end = old.position, old.position + len(old)
    if not is_exact and not _same_data(old, new, start, end):
        return new.slice(start, end)
    gained = {}
    for name, state in new.states.items():
        state = state[start:end]
        known = old.states.get(name)
        wanted = ~_missing(state) if known is None else _missing(known) & ~_missing(state)
        if wanted.any():
            gained[name] = state.copy() if known is None else np.where(wanted[:, None], state, known)
    return replace(old, states={**old.states, **gained}) if gained else old


def _missing(state: npt.NDArray[np.float16]) -> npt.NDArray[np.bool_]:
    return np.isnan(state[:, 0])


def _same_data(old: Rows, new: Rows, start: int, end: int) -> bool:
    layers = range(old.layout.n_layer)
    return all(np.array_equal(old.k(il), new.k(il)[start:end]) and np.array_equal(old.v(il), new.v(il)[start:end]) for il in layers)
