"""Rows put together: ranges of rows of a stored text as one (`gather`), and older rows with what newer ones add (`renewed`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import numpy as np
import numpy.typing as npt

from relaylite.reuse.row_loading import Loading
from relaylite.reuse.rows import Rows, is_finite, k_of, v_of


@dataclass(frozen=True, slots=True)
class RowRange:
    """Tokens `[offset, offset + n)` of `rows`, where they stood: positions `[start, end)` of a stored text."""

    rows: Rows
    offset: int
    n: int

    def __len__(self) -> int:
        return self.n

    @property
    def start(self) -> int:
        return self.rows.position + self.offset

    @property
    def end(self) -> int:
        return self.start + self.n

    @property
    def is_exact(self) -> bool:
        """Whether all these rows are exact (`Rows.n_exact`)."""
        return self.rows.n_exact >= self.offset + self.n

    def within(self, start: int, end: int) -> RowRange:
        """The part at positions `[start, end)`, of which the range must hold one at least."""
        first, last = max(start, self.start), min(end, self.end)
        return RowRange(self.rows, self.offset + first - self.start, last - first)

    def of(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Of `values`, one for each token of `rows`, those of the range; a view."""
        return values[self.offset : self.offset + self.n]


def gather(parts: Sequence[RowRange]) -> RowRange:
    """The parts, which follow one another in a text, as one.

    Rows are copied only if there are several parts; if their layers are still to be loaded, each layer is copied when it is needed.
    """
    if len(parts) == 1:
        return parts[0]
    start, n = parts[0].start, sum(map(len, parts))
    layout = parts[0].rows.layout
    data = np.empty(n * layout.token_bytes, np.uint8)

    def join(layer: int) -> None:
        np.concatenate([part.of(part.rows.k(layer)) for part in parts], out=k_of(data, layout, layer))
        np.concatenate([part.of(part.rows.v(layer)) for part in parts], out=v_of(data, layout, layer))

    whole = Rows(
        tokens=np.concatenate([part.of(part.rows.tokens) for part in parts]),
        position=start,
        n_exact=sum(map(len, takewhile(lambda part: part.is_exact, parts))),
        data=data,
        layout=layout,
        states=_states(parts, start, n),
        origin=parts[-1].rows.origin,
        loading=Loading(layout.n_layer, join),
    )
    if all(part.rows.is_whole for part in parts):
        for layer in range(layout.n_layer):
            whole.bring(range(layer, layer + 1))
    return RowRange(whole, 0, n)


def _states(parts: Sequence[RowRange], start: int, n: int) -> dict[str, npt.NDArray[np.float16]]:
    widths = {name: state.shape[1] for part in parts for name, state in part.rows.states.items()}
    states = {}
    for name, width in widths.items():
        states[name] = np.full((n, width), np.nan, np.float16)
        for part in parts:
            if name in part.rows.states:
                states[name][part.start - start : part.end - start] = part.of(part.rows.states[name])
    return states


def renewed(old: Rows, new: Rows, *, is_exact: bool) -> Rows:
    """`old` with what `new`, rows of the same text from position 0 on, adds; `old` itself if it adds nothing.

    Exact rows of equal tokens are interchangeable: the old ones stay, and only gain hidden states. States of other layers, which were
    captured under another profile, go then. Relayed rows depend on what they were relayed from: if the newer ones differ, they take the
    place of the old ones.
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
