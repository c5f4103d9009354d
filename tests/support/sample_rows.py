"""Rows whose bytes tell which tokens they rest on, so that a row in a wrong place shows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from relaylite.reuse.plan import Segment
from relaylite.reuse.rows import RowLayout, Rows

LAYOUT = RowLayout(k_bytes=(8, 16), v_bytes=(8, 8), fingerprint="f1")
CAPTURE = "l_in-1"


def rows_of(
    tokens: Sequence[int],
    *,
    n_exact: int | None = None,
    position: int = 0,
    captured: Sequence[tuple[int, int]] = (),
    salt: str = "",
    layout: RowLayout = LAYOUT,
    origin: str = "",
) -> Rows:
    """Rows of `tokens` whose row i is a function of `tokens[: i + 1]` and, beyond `n_exact`, of `salt`."""
    ids = np.asarray(tokens, np.int32)
    n = len(ids)
    n_exact = n if n_exact is None else n_exact
    per_token = np.empty((n, layout.token_bytes), np.uint8)
    for i in range(n):
        seed = hashlib.blake2b(ids[: i + 1].tobytes() + (salt.encode() if i >= n_exact else b""), digest_size=16).digest()
        per_token[i] = np.frombuffer(hashlib.shake_128(seed).digest(layout.token_bytes), np.uint8)
    widths = [*layout.k_bytes, *layout.v_bytes]
    columns = np.split(per_token, np.cumsum(widths)[:-1], axis=1)
    states = {}
    if captured:
        states[CAPTURE] = np.full((n, 4), np.nan, np.float16)
        for start, end in captured:
            states[CAPTURE][start:end] = ids[start:end, None] + np.arange(4)
    return Rows(ids, position, n_exact, np.concatenate([c.ravel() for c in columns]), layout, states, origin)


def row_bytes(rows: Rows, offset: int, n: int) -> list[bytes]:
    """Of each token, the bytes of all its rows."""
    layers = range(rows.layout.n_layer)
    parts = [rows.k(il)[offset : offset + n] for il in layers] + [rows.v(il)[offset : offset + n] for il in layers]
    return [b"".join(part[i].tobytes() for part in parts) for i in range(n)]


def assert_match(found: Segment | None, tokens: Sequence[int], source: Rows) -> None:
    """`found` holds the prompt's tokens, and their rows as `source` has them at the position that the segment's rows name."""
    assert found is not None and found.rows is not None
    assert found.rows.tokens[found.offset : found.offset + len(found)].tolist() == list(tokens[found.start : found.end])
    place = found.rows.position + found.offset - source.position
    assert row_bytes(found.rows, found.offset, len(found)) == row_bytes(source, place, len(found))
