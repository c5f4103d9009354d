"""What tests of the disk tier share: a text, its rows in a folder, the files there, and rows that smaller codecs can hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from relaylite.reuse.plan import Segment
from relaylite.reuse.row_loading import Damaged
from relaylite.reuse.rows import RowLayout, Rows
from relaylite.store import Store
from relaylite.store.codec import CODECS
from support.sample_rows import LAYOUT, rows_of

PLENTY = 1 << 30
TEXT = list(range(100, 180))
WIDE = RowLayout((64, 64), (64, 64), "wide")  # rows that smaller codecs can hold


def prompt(tokens) -> np.ndarray:
    return np.array(tokens, np.int32)


def written(folder: Path, *texts: list[int], layout: RowLayout = LAYOUT, **options) -> None:
    store = Store(layout, PLENTY, folder=folder)
    for text in texts:
        store.put(rows_of(text, layout=layout, **options))
    store.close()


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.rows"))


def found(store: Store, tokens, *, exact: bool) -> Segment | None:
    """The prefix with all its rows, as whoever plans with it gets it: rows that are damaged are forgotten, and it is asked for again."""
    while found := store.prefix(prompt(tokens), exact=exact):
        try:
            assert found.rows is not None
            found.rows.bring()
            return found
        except Damaged as damaged:
            store.forget(damaged)
    return None


def smooth_rows(tokens, *, salt: int = 0) -> Rows:
    """Exact rows that smaller codecs can hold, a function of each token and `salt`."""
    numbers = np.random.default_rng(salt).standard_normal((256, WIDE.token_bytes // 2)).astype(np.float16)[np.asarray(tokens)]
    widths = [size // 2 for size in (*WIDE.k_bytes, *WIDE.v_bytes)]
    data = np.concatenate([part.ravel() for part in np.split(numbers, np.cumsum(widths)[:-1], axis=1)])
    return Rows(np.asarray(tokens, np.int32), 0, len(tokens), data.view(np.uint8), WIDE)


def lossy(folder: Path, ram: int = PLENTY) -> Store:
    return Store(WIDE, ram, folder=folder, codec=CODECS["q8"])
