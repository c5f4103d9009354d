"""`LateRows`: rows of a placed plan that are still being loaded. Their cells wait, and are filled just before the layer runs.

Only where a core is free to load ahead (docs/store.md): threads of a sweep go on spinning for a while when a slice has ended, and take the
cores from what would be loaded then. Where none is free, rows are loaded when they are placed.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from relaylite.engine.cache import Cache, Placement

STEPS = 4  # a sweep runs a quarter of the layers at least before it looks how far rows have come


class LateRows:
    """Used as a context: inside, `n_workers` threads load ahead in the order of layers. When it is left, for any reason, they are gone."""

    def __init__(self, cache: Cache | None, start: int, placements: list[Placement], n_workers: int) -> None:
        """`placements` tile the cells from position `start` on; cells of those without rows are left alone. Rows need a worker."""
        self._cache, self._start, self._placements = cache, start, placements
        self._rows = [placement.rows for placement in placements if placement.rows is not None]
        self._n_layer = cache.info.n_layer if cache is not None else 0
        self._step = -(-self._n_layer // STEPS)
        self._end = 0 if self._rows else self._n_layer  # layers before it stand in their cells
        self._workers = ThreadPoolExecutor(n_workers, "relaylite-load") if self._rows else None

    def __enter__(self) -> Self:
        if self._workers is not None:
            for layer in range(self._n_layer):
                self._workers.submit(self._load, layer)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._workers is not None:
            self._workers.shutdown(cancel_futures=True)

    def write(self, end: int | None = None) -> None:
        """Have the rows of layers before `end` in their cells, by default of all. Raises Damaged or Cancelled."""
        end = self._n_layer if end is None else end
        while self._end < end:
            assert self._cache is not None
            layers = range(self._end, min(self._end + self._step, end))
            self._cache.write(self._start, self._placements, layers)
            self._end = layers.stop

    def reach(self, first: int, end: int) -> int:
        """Of layers `[first, end)`, how far they can run now: to where rows are still missing, but one step at least."""
        stop = max(first, self._end)
        while stop < end and all(rows.has(range(stop, stop + 1)) for rows in self._rows):
            stop += 1
        return min(max(stop, first + self._step), end)

    def _load(self, layer: int) -> None:
        for rows in self._rows:
            rows.bring(range(layer, layer + 1))
