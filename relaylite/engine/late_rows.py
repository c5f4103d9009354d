"""`LateRows`: rows of a placed plan that are still being loaded. Their cells are reserved, and written just before the layer runs.

This needs a core that is free to load ahead (docs/store.md): the threads of a sweep go on spinning for a while when a slice has ended, and
would take the cores from the loading. If no core is free, rows are loaded when they are placed.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from relaylite.engine.cache import Cache
from relaylite.reuse.plan import Segment

STEPS = 4  # a sweep runs a quarter of the layers at least before it looks how far rows have come


class LateRows:
    """A context manager: inside, `n_loaders` threads load ahead in the order of layers. When it is left, they have ended."""

    def __init__(self, cache: Cache | None, segments: Sequence[Segment], n_loaders: int) -> None:
        """`segments` follow one another, and their cells are in the cache; cells of segments without rows are left alone.

        If any has rows, at least one loader is needed.
        """
        self._cache, self._segments = cache, segments
        self._rows = [segment.rows for segment in segments if segment.rows is not None]
        self._n_layer = cache.info.n_layer if cache is not None else 0
        self._step = -(-self._n_layer // STEPS)
        self._end = 0 if self._rows else self._n_layer  # the rows of layers before it are in their cells
        self._loaders = ThreadPoolExecutor(n_loaders, "relaylite-load") if self._rows else None

    def __enter__(self) -> Self:
        if self._loaders is not None:
            for layer in range(self._n_layer):
                self._loaders.submit(self._load, layer)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._loaders is not None:
            self._loaders.shutdown(cancel_futures=True)

    def write(self, end: int | None = None) -> None:
        """Have the rows of layers before `end` in their cells, by default of all layers. Raises Damaged or Cancelled."""
        end = self._n_layer if end is None else end
        while self._end < end:
            assert self._cache is not None
            layers = range(self._end, min(self._end + self._step, end))
            self._cache.write(self._segments, layers)
            self._end = layers.stop

    def reach(self, first: int, end: int) -> int:
        """The layer before which a run of layers `[first, end)` should stop: the first whose rows are missing, but one step on at least."""
        stop = max(first, self._end)
        while stop < end and all(rows.has(range(stop, stop + 1)) for rows in self._rows):
            stop += 1
        return min(max(stop, first + self._step), end)

    def _load(self, layer: int) -> None:
        for rows in self._rows:
            rows.bring(range(layer, layer + 1))
