"""What tests of the disk tier share: a text, its rows in a folder, and the files there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sample_rows import LAYOUT, rows_of

from relaylite.loading import Damaged
from relaylite.plan import Match
from relaylite.rows import RowLayout
from relaylite.store import Store

PLENTY = 1 << 30
TEXT = list(range(100, 180))


def prompt(tokens) -> np.ndarray:
    return np.array(tokens, np.int32)


def written(folder: Path, *texts: list[int], layout: RowLayout = LAYOUT, **options) -> None:
    store = Store(layout, PLENTY, folder=folder)
    for text in texts:
        store.put(rows_of(text, layout=layout, **options))
    store.close()


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.rows"))


def found(store: Store, tokens, *, exact: bool) -> Match | None:
    """The prefix with all its rows, as whoever plans with it gets it: rows that are damaged are forgotten, and it is asked for again."""
    while match := store.prefix(prompt(tokens), exact=exact):
        try:
            match.rows.bring()
            return match
        except Damaged as damaged:
            store.forget(damaged)
    return None
