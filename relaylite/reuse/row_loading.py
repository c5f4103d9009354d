"""`Loading`: rows that come layer by layer, while the layers before them are used already.

Each layer is made once, by whoever needs it first; the others wait for that. What making is (reading, checking, decoding, copying) the
store knows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from relaylite.errors import RelayliteError


class Damaged(RelayliteError):
    """Rows of the file `name` are not what was written. Whoever planned with them lets the store forget the file, and plans anew."""

    def __init__(self, name: str, problem: Exception) -> None:
        super().__init__(f"the rows in {name} cannot be used ({problem}); relaylite store verify removes such files")
        self.name, self.problem = name, problem


class Loading:
    """Of `n_layer` layers, those that are there. `make` makes the rows of one; it may raise Damaged. Used from any thread."""

    def __init__(self, n_layer: int, make: Callable[[int], None]) -> None:
        self._make: Callable[[int], None] | None = make  # let go with what it holds when all is there
        self._locks = [threading.Lock() for _ in range(n_layer)]
        self._is_there = [False] * n_layer

    def has(self, layers: Iterable[int]) -> bool:
        return all(self._is_there[il] for il in layers)

    @property
    def is_done(self) -> bool:
        return all(self._is_there)

    def bring(self, layers: Iterable[int]) -> None:
        """Have these layers there: what is missing is made now, on all cores if it is more than one layer. Raises Damaged."""
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
