"""Rows of a stretch of a path, in one piece, as a plan needs them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from relaylite.rows import Rows
from relaylite.store.radix import Node


def gather(path: list[Node], start: int, end: int) -> tuple[Rows, int]:
    """Rows that hold positions `[start, end)` of `path`, and the offset in them. Copied only where nodes meet."""
    nodes = [node for node in path if node.start < end and node.end > start]
    if len(nodes) == 1:
        return nodes[0].rows, start - nodes[0].start
    n, layout = end - start, nodes[0].rows.layout
    n_exact = max((min(node.end, end) - start for node in nodes if node.is_exact), default=0)
    whole = Rows(
        tokens=np.concatenate([cut(node.tokens, node, start, end) for node in nodes]),
        position=start,
        n_exact=n_exact,
        data=np.empty(n * layout.token_bytes, np.uint8),
        layout=layout,
        states=_states(nodes, start, end),
        origin=nodes[-1].rows.origin,
    )
    for il in range(layout.n_layer):
        np.concatenate([cut(node.rows.k(il), node, start, end) for node in nodes], out=whole.k(il))
        np.concatenate([cut(node.rows.v(il), node, start, end) for node in nodes], out=whole.v(il))
    return whole, 0


def cut(values: npt.NDArray[Any], node: Node, start: int, end: int) -> npt.NDArray[Any]:
    """Of `values`, one a token of `node`, those at positions `[start, end)`; a view."""
    return values[max(start - node.start, 0) : end - node.start]


def captured(path: list[Node], start: int, end: int) -> npt.NDArray[np.bool_]:
    """Which tokens at positions `[start, end)` of `path` have all their hidden states."""
    masks = []
    for node in path:
        if node.start < end and node.end > start:
            states = node.rows.states.values()
            whole = np.logical_and.reduce([~np.isnan(s[:, 0]) for s in states]) if states else np.zeros(len(node.rows), bool)
            masks.append(cut(whole, node, start, end))
    return np.concatenate(masks)


def _states(nodes: list[Node], start: int, end: int) -> dict[str, npt.NDArray[np.float16]]:
    widths = {name: state.shape[1] for node in nodes for name, state in node.rows.states.items()}
    states = {}
    for name, width in widths.items():
        states[name] = np.full((end - start, width), np.nan, np.float16)
        for node in nodes:
            if name in node.rows.states:
                first = max(node.start, start) - start
                piece = cut(node.rows.states[name], node, start, end)
                states[name][first : first + len(piece)] = piece
    return states
