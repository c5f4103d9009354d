"""How rows lie in a file. `PLAIN` leaves them as they are; `relaylite.store.quantize` has smaller forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


class RowCodec(Protocol):
    """One form of K or V rows of one layer."""

    def encoded_bytes(self, row_bytes: int) -> int:
        """Bytes that a row of `row_bytes` takes; raises ValueError if it cannot be encoded."""
        ...

    def encode(self, rows: Bytes) -> Bytes:
        """uint8 `[n, row_bytes]` → uint8 `[n, encoded_bytes]`."""
        ...

    def decode(self, encoded: Bytes, row_bytes: int) -> Bytes: ...


class Verbatim:
    """Rows as they are."""

    def encoded_bytes(self, row_bytes: int) -> int:
        return row_bytes

    def encode(self, rows: Bytes) -> Bytes:
        return rows

    def decode(self, encoded: Bytes, row_bytes: int) -> Bytes:
        return encoded


@dataclass(frozen=True, slots=True)
class Codec:
    """Forms of K and of V, by the name that files carry."""

    name: str
    k: RowCodec
    v: RowCodec


PLAIN = Codec("plain", Verbatim(), Verbatim())
