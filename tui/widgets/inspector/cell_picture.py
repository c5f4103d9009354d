"""A picture of a prompt's cells, layers up and positions across, binned to what fits. Arrays in, arrays out; no widgets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from relaylite.metrics import CellMap

KINDS = 4


@dataclass(frozen=True, slots=True)
class Picture:
    """`shares`: float32 `[rows, columns, 4]`, of each bin's cells the share of each kind.

    Row 0 is the last layer. Bin edges: column c holds positions `[x[c], x[c + 1])`, row r layers `[y[r + 1], y[r])`.
    """

    shares: npt.NDArray[np.float32]
    x: npt.NDArray[np.int64]
    y: npt.NDArray[np.int64]

    def column_of(self, position: int) -> int:
        return int(np.searchsorted(self.x, position, side="right")) - 1

    def row_of(self, layer: int) -> int:
        """The row that shows `layer`."""
        ascending = self.y[::-1]
        return len(self.y) - 2 - (int(np.searchsorted(ascending, layer, side="right")) - 1)

    @property
    def kinds(self) -> npt.NDArray[np.uint8]:
        """The most frequent kind of each bin, uint8 `[rows, columns]`; of equals, the later one."""
        kinds: npt.NDArray[np.uint8] = (KINDS - 1 - np.argmax(self.shares[:, :, ::-1], axis=2)).astype(np.uint8)
        return kinds

    @property
    def is_mixed(self) -> npt.NDArray[np.bool_]:
        """Bins that hold mostly reused cells with a tenth or more recomputed."""
        recomputed = self.shares[:, :, CellMap.RECOMPUTED]
        mixed: npt.NDArray[np.bool_] = (self.kinds == CellMap.REUSED) & (recomputed >= 0.1)
        return mixed


def edges(n: int, bins: int) -> npt.NDArray[np.int64]:
    """`min(n, bins) + 1` edges that split `[0, n)` as evenly as whole numbers allow."""
    bins = max(1, min(n, bins))
    return np.linspace(0, n, bins + 1).astype(np.int64)


def draw(cells: npt.NDArray[np.uint8], rows: int, columns: int, start: int = 0, end: int | None = None) -> Picture:
    """Positions `[start, end)` of `cells` in at most `rows` by `columns` bins; wide enough, a cell has a bin of its own."""
    end = cells.shape[1] if end is None else end
    part = cells[:, start:end]
    x, y = edges(part.shape[1], columns), edges(part.shape[0], rows)
    shares = np.empty((len(y) - 1, len(x) - 1, KINDS), np.float32)
    areas = np.outer(np.diff(y), np.diff(x))
    for kind in range(KINDS):
        by_row = np.add.reduceat((part == kind).astype(np.int32), y[:-1], axis=0)
        shares[:, :, kind] = np.add.reduceat(by_row, x[:-1], axis=1) / areas
    return Picture(shares[::-1], x + start, y[::-1])
