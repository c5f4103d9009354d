"""`RowFile` reads, and `RowWriter` writes, one file of rows that follow one another. The format; nothing of folders, budgets or locks.

    preamble   magic, format version, header length, CRC-32 of the header
    header     JSON: what the rows are, and name, place, size and CRC-32 of every section
    sections   aligned to 64 bytes: tokens, K of layer 0 … K of the last layer, V of layer 0 …, then captured states, each contiguous

K and V sections follow one another without a gap, so that plain ones are mapped into memory as `Rows.data`. The token section
also holds the tokens that lead to the rows, so that a file alone tells what its rows rest on. K and V of a layer are checked and
decoded when they are needed (`Loading`), everything else before rows are handed out.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from relaylite.paths import NotRegularError, open_regular
from relaylite.reuse.row_loading import Damaged, Loading
from relaylite.reuse.rows import RowLayout, Rows, Tokens, k_of, v_of
from relaylite.store.captured import captured_rows, ranges
from relaylite.store.codec import CODECS, PLAIN, Bytes, Codec

SUFFIX = ".rows"
VERSION = 2  # of files with a scope or an answer; others are written as version 1, which earlier versions of relaylite read
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
    with all hidden states that the file has; `states`: their widths. Rows of any codec but plain are not exact. `scope`: the mark of
    those who may use the rows (`scope_mark`). `answer`: the position from which on the tokens are an answer, if they are.
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
    scope: str = ""
    answer: int | None = None

    @property
    def is_exact(self) -> bool:
        return self.is_rooted and self.codec == PLAIN.name and self.n_exact == self.position + self.n

    @classmethod
    def parse(cls, text: bytes) -> Header:
        try:
            values = json.loads(text)
            values["captured"] = [(int(a), int(b)) for a, b in values["captured"]]
            values["sections"] = {str(name): (int(a), int(b), int(c)) for name, (a, b, c) in values["sections"].items()}
            header = cls(**values)
            if not isinstance(header.scope, str) or not isinstance(header.answer, int | None):
                raise TypeError("scope or answer")
            return header
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise Corrupt("header cannot be read") from error


class RowFile:
    """A file whose header and tokens were checked. K and V of a layer are checked when it is loaded."""

    def __init__(self, path: Path) -> None:
        """Raises Corrupt, Newer, or OSError."""
        self.path = path
        try:
            file = open_regular(path)
        except NotRegularError as error:
            raise Corrupt("no regular file") from error
        with file:
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
        if self.tokens.min(initial=0) < 0:
            raise Corrupt("a token id is negative")
        self._rows: Rows | None = None

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def own_tokens(self) -> Tokens:
        """The tokens that have rows here."""
        return self.tokens[len(self.tokens) - self.header.n :]

    def captured(self, names: Set[str]) -> npt.NDArray[np.bool_]:
        """bool `[n]`: the rows that have all of these states; without names, all that any of them has."""
        mask = np.zeros(self.header.n, bool)
        if names <= self.header.states.keys():
            for start, end in self.header.captured:
                mask[start:end] = True
        return mask

    def rows(self, layout: RowLayout, first: int, n: int) -> tuple[Rows, int]:
        """Rows that hold the file's rows `[first, first + n)`, and the offset in them. K and V are checked while they are loaded.

        Those of a plain file are mapped, once and as a whole; others are decoded at every call. Raises Corrupt, or OSError (the file is
        gone).
        """
        if self._rows is not None:
            return self._rows, first
        if self.header.codec != PLAIN.name:
            return self._load(layout, first, n), 0
        self._rows = self._load(layout, 0, self.header.n)
        return self._rows, first

    def check(self) -> None:
        """Compare every section with its checksum. Raises Corrupt or OSError."""
        mapped = self._map(list(self.header.sections))
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda name: self._checked(self._view(mapped, name), name), self.header.sections))

    def _load(self, layout: RowLayout, first: int, n: int) -> Rows:
        header = self.header
        codec = CODECS.get(header.codec)
        if codec is None or header.fingerprint != layout.fingerprint:
            raise Corrupt("rows are of another kind")
        layers = [f"{kind}{il}" for il in range(layout.n_layer) for kind in "kv"]
        mapped = self._map([*(f"state {name}" for name in header.states), *layers])
        start, end = self._base + self._section("k0")[0], first + n
        try:
            states = {name: self._state(mapped, name)[first:end] for name in header.states}
            if codec is not PLAIN:  # nothing but the file's layers that are still to come holds on to it
                states = {name: vectors.copy() for name, vectors in states.items()}
            data = mapped[start : start + n * layout.token_bytes] if codec is PLAIN else np.empty(n * layout.token_bytes, np.uint8)
            n_exact = min(max(header.n_exact - header.position - first, 0), n) if codec is PLAIN else 0
            loading = Loading(layout.n_layer, partial(self._make, mapped, data, layout, range(first, end)))
            return Rows(self.own_tokens[first:end], header.position + first, n_exact, data, layout, states, header.origin, loading)
        except ValueError as error:
            raise Corrupt("rows are of another size") from error

    def _make(self, mapped: Bytes, data: Bytes, layout: RowLayout, wanted: range, layer: int) -> None:
        """Have K and V of `layer` of the `wanted` rows in `data`, where plain ones are mapped. Raises Damaged."""
        codec = CODECS[self.header.codec]
        parts = ((f"k{layer}", codec.k, k_of(data, layout, layer)), (f"v{layer}", codec.v, v_of(data, layout, layer)))
        try:
            for name, row_codec, rows in parts:
                if codec is PLAIN:
                    self._checked(rows, name)
                else:
                    encoded = self._checked(self._view(mapped, name), name).reshape(self.header.n, -1)
                    rows[:] = row_codec.decode(encoded[wanted.start : wanted.stop], rows.shape[1])
        except (Corrupt, ValueError) as problem:
            raise Damaged(self.name, problem) from problem

    def _map(self, order: list[str]) -> Bytes:
        """The file in memory. The sections of `order` are asked of the disk now, in that order, all at once."""
        with open_regular(self.path) as file:
            size = os.fstat(file.fileno()).st_size
            if _read_header(file, size)[0] != self.header:
                raise FileNotFoundError(f"{self.name} was replaced")
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_WILLNEED"):
            for place, n_bytes, _ in map(self._section, order):
                start = (self._base + place) // mmap.PAGESIZE * mmap.PAGESIZE
                mapped.madvise(mmap.MADV_WILLNEED, start, self._base + place + n_bytes - start)
        return np.frombuffer(mapped, np.uint8)

    def _checked(self, content: Bytes, name: str) -> Bytes:
        """`content`, which is that of the section. 2 GB/s on a core: 1,000 tokens of an 8B model cost about 65 ms of one."""
        if zlib.crc32(content.data) != self._section(name)[2]:
            raise Corrupt(f"section {name} is damaged")
        return content

    def _state(self, mapped: Bytes, name: str) -> npt.NDArray[np.float16]:
        section = f"state {name}"
        return self._checked(self._view(mapped, section), section).view(np.float16).reshape(self.header.n, self.header.states[name])

    def _view(self, mapped: Bytes, name: str) -> Bytes:
        place, size, _ = self._section(name)
        return mapped[self._base + place : self._base + place + size]

    def _section(self, name: str) -> tuple[int, int, int]:
        if name not in self.header.sections:
            raise Corrupt(f"section {name} is missing")
        return self.header.sections[name]


@dataclass(frozen=True, slots=True)
class Draft:
    """Rows about to be written: `rows` behind `lead`, of which the first `n_exact` tokens (from position 0 on) have exact rows.

    `lead` is None for rows that do not start a text: what they rest on is not known. `scope` and `answer` are those of `Header`.
    """

    rows: Rows
    lead: Tokens | None
    n_exact: int
    scope: str = ""
    answer: int | None = None

    @property
    def tokens(self) -> Tokens:
        return self.rows.tokens if self.lead is None else np.concatenate([self.lead, self.rows.tokens])

    @property
    def file_name(self) -> str:
        """The same for the same rows, whoever writes them: model, then content."""
        key = json.dumps([self.rows.layout.fingerprint, self.rows.position, len(self.rows), self.n_exact, self.lead is not None])
        content = hashlib.blake2b(key.encode() + self.scope.encode() + self.tokens.tobytes(), digest_size=16).hexdigest()
        return f"{fingerprint_mark(self.rows.layout.fingerprint)}-{content}{SUFFIX}"


def fingerprint_mark(fingerprint: str) -> str:
    """What the names of a model's files begin with; the header holds the whole fingerprint."""
    return hashlib.blake2b(fingerprint.encode(), digest_size=6).hexdigest()


def scope_mark(name: str) -> str:
    """What files and nodes carry of a scope's name, which may be a secret; "" for no scope."""
    return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=16).hexdigest() if name else ""


class RowWriter:
    """The finished bytes of one file; `n_bytes` is known before anything is written."""

    def __init__(self, draft: Draft, codec: Codec) -> None:
        """Raises ValueError if the codec cannot hold such rows."""
        rows, self._contents, places, end = draft.rows, dict(_contents(draft, codec)), {}, 0
        for name, content in self._contents.items():
            is_joined = name[0] in "kv" and name != "k0"
            places[name] = end if is_joined else aligned(end)
            end = places[name] + content.nbytes
        header = Header(
            fingerprint=rows.layout.fingerprint,
            position=rows.position,
            n=len(rows),
            n_exact=draft.n_exact,
            is_rooted=draft.lead is not None,
            origin=rows.origin,
            codec=codec.name,
            captured=ranges(captured_rows(rows)),
            states={name: state.shape[1] for name, state in rows.states.items()},
            sections={name: (places[name], content.nbytes, zlib.crc32(content.data)) for name, content in self._contents.items()},
            section_bytes=end,
            scope=draft.scope,
            answer=draft.answer,
        )
        values = asdict(header)
        is_first_version = not draft.scope and draft.answer is None
        if is_first_version:
            del values["scope"], values["answer"]
        text = json.dumps(values).encode()
        self._head = PREAMBLE.pack(MAGIC, 1 if is_first_version else VERSION, len(text), zlib.crc32(text)) + text
        self._places = {name: aligned(len(self._head)) + place for name, place in places.items()}
        self.n_bytes = aligned(len(self._head)) + end

    def write(self, path: Path) -> None:
        """Write to `path`, which must not exist, readable by the user only, down to the disk. Raises OSError."""
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(self._head)
            for name, content in self._contents.items():
                file.write(bytes(self._places[name] - file.tell()))
                file.write(content.data)
            file.flush()
            os.fsync(file.fileno())


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


def _contents(draft: Draft, codec: Codec) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    rows = draft.rows
    yield "tokens", np.ascontiguousarray(draft.tokens, "<i4")
    for kind, row_codec, layer in (("k", codec.k, rows.k), ("v", codec.v, rows.v)):
        for il in range(rows.layout.n_layer):
            yield f"{kind}{il}", np.ascontiguousarray(row_codec.encode(layer(il)))
    for name, state in rows.states.items():
        yield f"state {name}", np.ascontiguousarray(state)
