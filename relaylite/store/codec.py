"""`Codec`: how rows lie in a file. `PLAIN` leaves them as they are; the others are smaller, and lose a little."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

BLOCK = 32  # values that share a step
MIXED = 64  # values mixed together, where the row's width allows

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


class RowCodec(Protocol):
    """How K, or V, of one layer is encoded, row by row."""

    def encoded_bytes(self, row_bytes: int) -> int:
        """Bytes of an encoded row, from those of the row. Raises ValueError if such rows cannot be encoded."""
        ...

    def encode(self, rows: Bytes) -> Bytes:
        """uint8 `[n, row_bytes]` → uint8 `[n, encoded_bytes]`."""
        ...

    def decode(self, encoded: Bytes, row_bytes: int) -> Bytes:
        """uint8 `[n, encoded_bytes]` → uint8 `[n, row_bytes]`."""
        ...


class Verbatim:
    """Rows as they are."""

    def encoded_bytes(self, row_bytes: int) -> int:
        return row_bytes

    def encode(self, rows: Bytes) -> Bytes:
        return rows

    def decode(self, encoded: Bytes, row_bytes: int) -> Bytes:
        return encoded


class Mixed:
    """F16 rows, mixed by a Hadamard matrix, then rounded to `bits`-bit numbers (4, 6 or 8) with an F16 step for every 32 of them.

    Mixing spreads a single large value over its neighbours, so that the step of its block need not follow it. It is its own inverse,
    and needs no knowledge of heads. The blocks are Q8_0, Q4_0 and their like.
    """

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self._half = 1 << (bits - 1)
        self._block_bytes = 2 + BLOCK * bits // 8

    def encoded_bytes(self, row_bytes: int) -> int:
        if row_bytes % (2 * BLOCK):
            raise ValueError(f"rows of {row_bytes} bytes are no F16 rows of whole blocks of {BLOCK}")
        return row_bytes // (2 * BLOCK) * self._block_bytes

    def encode(self, rows: Bytes) -> Bytes:
        n, size = len(rows), self.encoded_bytes(rows.shape[1])
        blocks = _mix(rows.view(np.float16).astype(np.float32)).reshape(-1, BLOCK)
        extreme = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1)[:, None], axis=1)
        steps = (extreme / -self._half).astype(np.float16)  # the extreme becomes the lowest number, which has no counterpart
        with np.errstate(divide="ignore"):
            inverse = np.where(steps, 1 / steps.astype(np.float32), 0)
        numbers = np.clip(np.rint(blocks * inverse) + self._half, 0, 2 * self._half - 1).astype(np.uint8)
        return np.concatenate([steps.view(np.uint8), self._pack(numbers)], axis=1).reshape(n, size)

    def decode(self, encoded: Bytes, row_bytes: int) -> Bytes:
        blocks = encoded.reshape(-1, self._block_bytes)
        steps = np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32)
        values = (self._unpack(blocks[:, 2:]).astype(np.float32) - self._half) * steps
        return _mix(values.reshape(len(encoded), row_bytes // 2)).astype(np.float16).view(np.uint8)

    def _pack(self, numbers: Bytes) -> Bytes:
        """Low halves of the numbers in pairs, then what they have beyond 4 bits."""
        if self.bits == 8:
            return numbers
        parts: list[npt.NDArray[Any]] = [numbers[:, :16] & 15 | numbers[:, 16:] << 4]
        high = numbers >> 4
        if self.bits == 6:
            parts.append(high[:, :8] | high[:, 8:16] << 2 | high[:, 16:24] << 4 | high[:, 24:] << 6)
        return np.concatenate(parts, axis=1)

    def _unpack(self, packed: Bytes) -> Bytes:
        if self.bits == 8:
            return packed
        low, rest = packed[:, :16], packed[:, 16:]
        numbers = np.concatenate([low & 15, low >> 4], axis=1)
        if self.bits == 6:
            numbers |= np.concatenate([rest >> shift & 3 for shift in (0, 2, 4, 6)], axis=1) << 4
        return numbers


def _mix(values: Floats) -> Floats:
    n, width = values.shape
    size = MIXED if width % MIXED == 0 else BLOCK
    return (values.reshape(-1, size) @ hadamard(size)).reshape(n, width)


@cache
def hadamard(n: int) -> Floats:
    """The orthonormal Hadamard matrix; `n` is a power of two."""
    matrix = np.ones((1, 1), np.float32)
    while len(matrix) < n:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix / np.float32(np.sqrt(n))


@dataclass(frozen=True, slots=True)
class Codec:
    """How K and V of every layer lie in a file, under the name that files carry."""

    name: str
    k: RowCodec
    v: RowCodec


PLAIN = Codec("plain", Verbatim(), Verbatim())

CODECS = {
    codec.name: codec
    for codec in (
        PLAIN,
        Codec("q8", Mixed(8), Mixed(8)),
        Codec("q8-q4", Mixed(8), Mixed(4)),
        Codec("q6-q4", Mixed(6), Mixed(4)),
        Codec("q4", Mixed(4), Mixed(4)),
    )
}
