"""Rows of a stretch of a path, in one piece, as a plan needs them."""

from __future__ import annotations

from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from relaylite.reuse.row_loading import Loading
from relaylite.reuse.rows import Rows, k_of, v_of


class Piece(NamedTuple):
    """Positions `[start, end)`: the rows of `rows` from `offset` on. Exact all, or none."""

    start: int
    end: int
    rows: Rows
    offset: int
    is_exact: bool

    def cut(self, values: npt.NDArray[Any], start: int, end: int) -> npt.NDArray[Any]:
        """Of `values`, one a token of `rows`, those at positions `[start, end)` of this piece; a view."""
        return values[self.offset + max(start, self.start) - self.start : self.offset + min(end, self.end) - self.start]


def gather(pieces: list[Piece], start: int, end: int) -> tuple[Rows, int]:
    """Rows that hold positions `[start, end)`, which `pieces` tile, and the offset in them. Copied only where pieces meet: layer by
    layer when they are needed, if pieces are loaded so."""
    if len(pieces) == 1:
        return pieces[0].rows, pieces[0].offset + start - pieces[0].start
    layout = pieces[0].rows.layout
    data = np.empty((end - start) * layout.token_bytes, np.uint8)

    def join(layer: int) -> None:
        np.concatenate([piece.cut(piece.rows.k(layer), start, end) for piece in pieces], out=k_of(data, layout, layer))
        np.concatenate([piece.cut(piece.rows.v(layer), start, end) for piece in pieces], out=v_of(data, layout, layer))

    whole = Rows(
        tokens=np.concatenate([piece.cut(piece.rows.tokens, start, end) for piece in pieces]),
        position=start,
        n_exact=max((min(piece.end, end) - start for piece in takewhile(lambda piece: piece.is_exact, pieces)), default=0),
        data=data,
        layout=layout,
        states=_states(pieces, start, end),
        origin=pieces[-1].rows.origin,
        loading=Loading(layout.n_layer, join),
    )
    if all(piece.rows.is_whole for piece in pieces):
        for layer in range(layout.n_layer):
            whole.bring(range(layer, layer + 1))
    return whole, 0


def _states(pieces: list[Piece], start: int, end: int) -> dict[str, npt.NDArray[np.float16]]:
    widths = {name: state.shape[1] for piece in pieces for name, state in piece.rows.states.items()}
    states = {}
    for name, width in widths.items():
        states[name] = np.full((end - start, width), np.nan, np.float16)
        for piece in pieces:
            if name in piece.rows.states:
                first = max(piece.start, start) - start
                found = piece.cut(piece.rows.states[name], start, end)
                states[name][first : first + len(found)] = found
    return states
