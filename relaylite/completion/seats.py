"""`Seats`: the engines that requests run on, one request each at a time. All compute with one model's weights."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from relaylite.engine.interface import EngineLike
from relaylite.errors import ModelError
from relaylite.reuse.rows import Tokens, common_length


@dataclass(slots=True, eq=False)
class Seat:
    """`tokens`: what its engine computed last."""

    engine: EngineLike
    tokens: Tokens = field(default_factory=lambda: np.empty(0, np.int32))
    is_taken: bool = False


class Seats:
    """Up to `limit` seats. The first one's engine is given; others are opened when they are needed, as far as there is memory."""

    def __init__(self, first: EngineLike, limit: int) -> None:
        self.limit = limit
        self._seats = [Seat(first)]

    def has_free(self) -> bool:
        """Whether `take` will find one. Opens another one if all are taken."""
        if all(seat.is_taken for seat in self._seats) and len(self._seats) < self.limit:
            self._open()
        return not all(seat.is_taken for seat in self._seats)

    def take(self, prompt: Tokens) -> Seat:
        """The free seat whose engine holds most of the start of `prompt`. Raises ValueError if none is free."""
        seat = max((seat for seat in self._seats if not seat.is_taken), key=lambda seat: common_length(seat.tokens, prompt))
        seat.is_taken = True
        return seat

    def give_back(self, seat: Seat, tokens: Tokens) -> None:
        """`tokens`: what its engine holds now."""
        seat.is_taken, seat.tokens = False, tokens

    def forget(self) -> None:
        """Others used the first engine meanwhile."""
        self._seats[0].tokens = np.empty(0, np.int32)

    def close(self) -> None:
        """Close the engines that were opened here."""
        while len(self._seats) > 1:
            self._seats.pop().engine.close()

    def _open(self) -> None:
        try:
            self._seats.append(Seat(self._seats[0].engine.beside()))
        except ModelError:
            self.limit = len(self._seats)
