"""What newer rows of the same tokens behind the same tokens add to stored ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from relaylite.reuse.rows import Rows
from relaylite.store.captured import is_finite


def renewed(old: Rows, new: Rows, *, is_exact: bool) -> Rows:
    """`old` with what `new`, rows from position 0 on, knows better; `old` itself if that is nothing.

    Exact rows of equal tokens are interchangeable, so the old ones stay and only gain hidden states; states of other layers, which
    another profile had captured, go then. Relayed rows depend on what they were relayed from, so the newer ones take their place
    where they differ.
    """
    start, end = old.position, old.position + len(old)
    if not is_exact and not _same_data(old, new, start, end):
        return new.slice(start, end)
    gained = {}
    for name, state in new.states.items():
        state = state[start:end]
        known = old.states.get(name)
        wanted = is_finite(state) if known is None else is_finite(state) & ~is_finite(known)
        if wanted.any():
            gained[name] = state.copy() if known is None else np.where(wanted[:, None], state, known)
    if not gained:
        return old
    return replace(old, states={name: state for name, state in old.states.items() if name in new.states} | gained)


def _same_data(old: Rows, new: Rows, start: int, end: int) -> bool:
    layers = range(old.layout.n_layer)
    return all(np.array_equal(old.k(il), new.k(il)[start:end]) and np.array_equal(old.v(il), new.v(il)[start:end]) for il in layers)
