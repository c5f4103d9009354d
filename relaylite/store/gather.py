"""Rows put together: several segments of a stored text as one, and older rows with what newer ones add."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import numpy as np
import numpy.typing as npt

from relaylite.reuse.plan import Kind, Segment
from relaylite.reuse.row_loading import Loading
from relaylite.reuse.rows import Rows, is_finite, k_of, v_of


def gather(segments: Sequence[Segment]) -> Segment:
    """The segments, which follow one another, as one PREFIX: the rows of `[start, end)` of a text, in place.

    Rows are copied only if there are several segments; if their layers are still to be loaded, each layer is copied when it is needed.
    """
    if len(segments) == 1:
        return segments[0]
    parts = [(segment, segment.rows) for segment in segments if segment.rows is not None]
    start, end = segments[0].start, segments[-1].end
    layout = parts[0][1].layout
    data = np.empty((end - start) * layout.token_bytes, np.uint8)

    def join(layer: int) -> None:
        np.concatenate([_of(segment, rows.k(layer)) for segment, rows in parts], out=k_of(data, layout, layer))
        np.concatenate([_of(segment, rows.v(layer)) for segment, rows in parts], out=v_of(data, layout, layer))

    whole = Rows(
        tokens=np.concatenate([_of(segment, rows.tokens) for segment, rows in parts]),
        position=start,
        n_exact=sum(map(len, takewhile(lambda segment: segment.n_exact == len(segment), segments))),
        data=data,
        layout=layout,
        states=_states(parts, start, end),
        origin=parts[-1][1].origin,
        loading=Loading(layout.n_layer, join),
    )
    if all(rows.is_whole for _, rows in parts):
        for layer in range(layout.n_layer):
            whole.bring(range(layer, layer + 1))
    return Segment(start, end, Kind.PREFIX, whole)


def _of(segment: Segment, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Of `values`, one for each of the rows, those of the segment; a view."""
    return values[segment.offset : segment.offset + len(segment)]


def _states(parts: Sequence[tuple[Segment, Rows]], start: int, end: int) -> dict[str, npt.NDArray[np.float16]]:
    widths = {name: state.shape[1] for _, rows in parts for name, state in rows.states.items()}
    states = {}
    for name, width in widths.items():
        states[name] = np.full((end - start, width), np.nan, np.float16)
        for segment, rows in parts:
            if name in rows.states:
                states[name][segment.start - start : segment.end - start] = _of(segment, rows.states[name])
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
