"""Smaller forms of F16 rows: rotated by a Hadamard matrix, then rounded in blocks of 32 as Q8_0, Q4_0 and their like.

The rotation spreads single large values over their neighbours, so that the block's step need not follow them. It is its own
inverse, and needs no knowledge of heads.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from relaylite.store.codec import PLAIN, Bytes, Codec

BLOCK = 32  # values that share a step
ROTATED = 64  # values rotated together, where the row's width allows

Floats = npt.NDArray[np.float32]


@cache
def hadamard(n: int) -> Floats:
    """The orthonormal Hadamard matrix; `n` is a power of two."""
    matrix = np.ones((1, 1), np.float32)
    while len(matrix) < n:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix / np.float32(np.sqrt(n))


class Rotated:
    """F16 rows as `bits`-bit numbers (4, 5, 6 or 8) with an F16 step for every 32 of them."""

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
        blocks = _rotate(rows.view(np.float16).astype(np.float32)).reshape(-1, BLOCK)
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
        return _rotate(values.reshape(len(encoded), row_bytes // 2)).astype(np.float16).view(np.uint8)

    def _pack(self, numbers: Bytes) -> Bytes:
        """Low halves of the numbers in pairs, then what they have beyond 4 bits."""
        if self.bits == 8:
            return numbers
        parts: list[npt.NDArray[Any]] = [numbers[:, :16] & 15 | numbers[:, 16:] << 4]
        high = numbers >> 4
        if self.bits == 5:
            parts.append(np.packbits(high, axis=1))
        elif self.bits == 6:
            parts.append(high[:, :8] | high[:, 8:16] << 2 | high[:, 16:24] << 4 | high[:, 24:] << 6)
        return np.concatenate(parts, axis=1)

    def _unpack(self, packed: Bytes) -> Bytes:
        if self.bits == 8:
            return packed
        low, rest = packed[:, :16], packed[:, 16:]
        numbers = np.concatenate([low & 15, low >> 4], axis=1)
        if self.bits == 5:
            numbers |= np.unpackbits(rest, axis=1) << 4
        elif self.bits == 6:
            numbers |= np.concatenate([rest >> shift & 3 for shift in (0, 2, 4, 6)], axis=1) << 4
        return numbers


def _rotate(values: Floats) -> Floats:
    n, width = values.shape
    size = ROTATED if width % ROTATED == 0 else BLOCK
    return (values.reshape(-1, size) @ hadamard(size)).reshape(n, width)


CODECS = {
    codec.name: codec
    for codec in (
        PLAIN,
        Codec("q8", Rotated(8), Rotated(8)),
        Codec("q8-q4", Rotated(8), Rotated(4)),
        Codec("q6-q4", Rotated(6), Rotated(4)),
        Codec("q4", Rotated(4), Rotated(4)),
    )
}
