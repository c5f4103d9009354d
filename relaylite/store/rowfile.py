"""`RowFile`: one run of rows as a file that can prove itself. The format, and nothing of folders, budgets or locks.

    preamble   magic, format version, header length, CRC-32 of the header
    header     JSON: what the rows are, and name, place, size and CRC-32 of every section
    sections   aligned to 64 bytes: tokens, K of layer 0 … K of the last layer, V of layer 0 …, then captured states, each contiguous

K and V sections follow one another without a gap, so that plain ones are mapped into memory as `Rows.data`. The token section
holds the tokens that lead to the rows as well, so that a file alone tells what its rows rest on.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from collections.abc import Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from relaylite.rows import RowLayout, Rows, Tokens
from relaylite.store.codec import PLAIN, Codec, RowCodec
from relaylite.store.quantize import CODECS

VERSION = 1
MAGIC = b"relayrow"
PREAMBLE = struct.Struct("<8sIII")
ALIGNMENT = 64


class Corrupt(Exception):
    """The file is cut, damaged, or no row file."""


class Newer(Exception):
    """A later version of relaylite wrote the file."""


@dataclass(frozen=True, slots=True)
class Header:
    """`n` rows from `position` on. `n_exact`: how many of the tokens from position 0 on have exact rows, as far as they lead here.

    `is_rooted`: the token section begins at position 0; else with the first row, and no row is exact. `captured`: ranges of rows
    with all hidden states that the file has; `states`: their widths.
    """

    fingerprint: str
    position: int
    n: int
    n_exact: int
    is_rooted: bool
    origin: str
    codec: str
    captured: list[tuple[int, int]]
    states: dict[str, int]
    sections: dict[str, tuple[int, int, int]]  # name → place after the header, size, CRC-32
    section_bytes: int  # of all sections with the gaps between them

    @property
    def is_exact(self) -> bool:
        return self.is_rooted and self.n_exact == self.position + self.n

    @classmethod
    def parse(cls, text: bytes) -> Header:
        try:
            values = json.loads(text)
            values["captured"] = [(int(a), int(b)) for a, b in values["captured"]]
            values["sections"] = {str(name): (int(a), int(b), int(c)) for name, (a, b, c) in values["sections"].items()}
            return cls(**values)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Corrupt("header cannot be read") from error


class RowFile:
    """A file whose header and tokens were checked. The rows are checked when they are first asked for."""

    def __init__(self, path: Path) -> None:
        """Raises Corrupt, Newer, or OSError."""
        self.path = path
        with path.open("rb") as file:
            stat = os.fstat(file.fileno())
            self.n_bytes = stat.st_size
            self.header, self._base = _read_header(file, stat.st_size)
            place, size, checksum = self._section("tokens")
            file.seek(self._base + place)
            content = file.read(size)
        if zlib.crc32(content) != checksum or size % 4:
            raise Corrupt("tokens are damaged")
        self.tokens: Tokens = np.frombuffer(content, "<i4").astype(np.int32, copy=False)
        if len(self.tokens) != self.header.n + (self.header.position if self.header.is_rooted else 0):
            raise Corrupt("tokens are missing")
        self._rows: Rows | None = None

    @property
    def own_tokens(self) -> Tokens:
        """Those that have rows here."""
        return self.tokens[len(self.tokens) - self.header.n :]

    def captured(self, names: Set[str]) -> npt.NDArray[np.bool_]:
        """bool `[n]`: the rows that have all of these states; without names, all that any of them has."""
        mask = np.zeros(self.header.n, bool)
        if names <= self.header.states.keys():
            for start, end in self.header.captured:
                mask[start:end] = True
        return mask

    def rows(self, layout: RowLayout) -> Rows:
        """All rows, checked once. Those of a plain file are mapped and stay so; others are decoded at every call, on all cores.

        Raises Corrupt, or OSError (the file is gone).
        """
        if self._rows is not None:
            return self._rows
        rows = self._load(layout)
        if self.header.codec == PLAIN.name:
            self._rows = rows
        return rows

    def check(self) -> None:
        """Compare every section with its checksum. Raises Corrupt or OSError."""
        self._verify(self._map())

    def _load(self, layout: RowLayout) -> Rows:
        header = self.header
        codec = CODECS.get(header.codec)
        if codec is None or header.fingerprint != layout.fingerprint:
            raise Corrupt("rows are of another kind")
        mapped = self._map()
        self._verify(mapped)
        n_exact = min(max(header.n_exact - header.position, 0), header.n)
        states = {name: self._view(mapped, f"state {name}").view(np.float16) for name in header.states}
        try:
            states = {name: state.reshape(header.n, header.states[name]) for name, state in states.items()}
            data = self._data(mapped, layout, codec)
            return Rows(self.own_tokens, header.position, n_exact, data, layout, states, header.origin)
        except ValueError as error:
            raise Corrupt("rows are of another size") from error

    def _data(self, mapped: npt.NDArray[np.uint8], layout: RowLayout, codec: Codec) -> npt.NDArray[np.uint8]:
        n = self.header.n
        if codec is PLAIN:
            start = self._base + self._section("k0")[0]
            return mapped[start : start + n * layout.token_bytes]
        kinds = (("k", codec.k, layout.k_bytes), ("v", codec.v, layout.v_bytes))
        sections = [(f"{kind}{il}", form, row_bytes) for kind, form, sizes in kinds for il, row_bytes in enumerate(sizes)]

        def decoded(section: tuple[str, RowCodec, int]) -> npt.NDArray[np.uint8]:
            name, form, row_bytes = section
            return form.decode(self._view(mapped, name).reshape(n, form.encoded_bytes(row_bytes)), row_bytes).ravel()

        with ThreadPoolExecutor() as pool:
            return np.concatenate(list(pool.map(decoded, sections)))

    def _map(self) -> npt.NDArray[np.uint8]:
        with self.path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if _read_header(file, size)[0] != self.header:
                raise FileNotFoundError(f"{self.path.name} was replaced")
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_WILLNEED"):
            mapped.madvise(mmap.MADV_WILLNEED)  # all of it is read at once, to be checked
        return np.frombuffer(mapped, np.uint8)

    def _verify(self, mapped: npt.NDArray[np.uint8]) -> None:
        """On all cores: 2 GB/s each, so 1,000 tokens of an 8B model cost about 65 ms of one."""
        sections = self.header.sections
        with ThreadPoolExecutor() as pool:
            checksums = pool.map(lambda name: zlib.crc32(self._view(mapped, name).data), sections)
        for (name, (_, _, expected)), checksum in zip(sections.items(), checksums, strict=True):
            if checksum != expected:
                raise Corrupt(f"section {name} is damaged")

    def _view(self, mapped: npt.NDArray[np.uint8], name: str) -> npt.NDArray[np.uint8]:
        place, size, _ = self._section(name)
        return mapped[self._base + place : self._base + place + size]

    def _section(self, name: str) -> tuple[int, int, int]:
        if name not in self.header.sections:
            raise Corrupt(f"section {name} is missing")
        return self.header.sections[name]


def aligned(n_bytes: int) -> int:
    """The next place at which a section may begin."""
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT


def _read_header(file: BinaryIO, n_bytes: int) -> tuple[Header, int]:
    """The header, and where the sections begin."""
    start = file.read(PREAMBLE.size)
    if len(start) < PREAMBLE.size:
        raise Corrupt("the file is cut")
    magic, version, length, checksum = PREAMBLE.unpack(start)
    if magic != MAGIC:
        raise Corrupt("no row file")
    if version > VERSION:
        raise Newer(f"format {version}")
    text = file.read(min(length, n_bytes))
    if zlib.crc32(text) != checksum:
        raise Corrupt("header is damaged")
    header = Header.parse(text)
    base = aligned(PREAMBLE.size + length)
    if base + header.section_bytes != n_bytes:
        raise Corrupt("the file is cut")
    return header, base
