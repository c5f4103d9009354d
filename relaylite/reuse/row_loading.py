"""`Loading`: rows that are made layer by layer, while earlier layers are in use already.

The first thread that needs a layer makes it; others that need it wait. The store says what making means: reading, checking, decoding,
copying.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from relaylite.errors import RelayliteError


class Damaged(RelayliteError):
    """Rows of the file `name` are not what was written. The caller has the store forget the file, and makes a new plan."""

    def __init__(self, name: str, problem: Exception) -> None:
        super().__init__(f"the rows in {name} cannot be used ({problem}); relaylite store verify removes such files")
        self.name, self.problem = name, problem


class Loading:
    """Which of `n_layer` layers are made. `make` makes the rows of one layer, and may raise Damaged. Used from any thread."""

    def __init__(self, n_layer: int, make: Callable[[int], None]) -> None:
        self._make: Callable[[int], None] | None = make  # dropped with what it holds when all layers are made
        self._locks = [threading.Lock() for _ in range(n_layer)]
        self._is_there = [False] * n_layer

    def has(self, layers: Iterable[int]) -> bool:
        """Whether all of these layers are made."""
        return all(self._is_there[il] for il in layers)

    @property
    def is_done(self) -> bool:
        return all(self._is_there)

    def bring(self, layers: Iterable[int]) -> None:
        """Make those of these layers that are missing, on all cores if there are several, and wait for them. Raises Damaged."""
        missing = [il for il in layers if not self._is_there[il]]
        if len(missing) > 1:
            with ThreadPoolExecutor() as pool:
                list(pool.map(self._bring, missing))
        elif missing:
            self._bring(missing[0])

    def _bring(self, layer: int) -> None:
        with self._locks[layer]:
            if not self._is_there[layer]:
                assert self._make is not None
                self._make(layer)
                self._is_there[layer] = True
        if self.is_done:
            self._make = None
