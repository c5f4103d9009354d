"""`ModelFile`: the header of a GGUF file, read and judged before llama.cpp sees the file.

Our own reader, since the `gguf` package takes 0.2 s to import and keeps every vocabulary entry as an object. It reads no weights,
and says nothing about whether llama.cpp knows the architecture.
"""

from __future__ import annotations

import mmap
import re
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relaylite.errors import ModelFileError

MAX_KEPT = 1024  # longer arrays (vocabularies) are skipped

# ggml's tensor types: elements in a block, bytes of a block
# fmt: off
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136),
    24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66),
    39: (32, 17), 40: (64, 36), 41: (128, 18), 42: (64, 18),
}
# fmt: on
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
FLOAT32, _STRING, _ARRAY = 6, 8, 9


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """`shape` as ggml writes it (fastest first); `offset` counts from the start of the data; `n_bytes` is None for unknown types."""

    name: str
    shape: tuple[int, ...]
    type: int
    offset: int
    n_bytes: int | None


@dataclass(frozen=True, slots=True)
class ModelFile:
    """Metadata by key, tensors in file order. Arrays of more than `MAX_KEPT` values are left out; `lengths` has their sizes.

    `types`: GGUF's number for the type of each value.
    """

    path: Path
    n_bytes: int
    metadata: Mapping[str, Any]
    types: Mapping[str, int]
    lengths: Mapping[str, int]
    tensors: tuple[TensorEntry, ...]
    data_start: int

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture", ""))

    def value(self, key: str, default: Any = None) -> Any:
        """Metadata of the architecture: `value("block_count")` reads `llama.block_count` of a llama."""
        return self.metadata.get(f"{self.architecture}.{key}", default)

    @property
    def n_params(self) -> int:
        total = 0
        for tensor in self.tensors:
            n = 1
            for size in tensor.shape:
                n *= size
            total += n
        return total


class DamagedFile(ModelFileError):
    """The content is not what a GGUF file has: fetched again, it may be."""


class _Cursor:
    """Reads little-endian values in order; running past the end raises ModelFileError."""

    def __init__(self, data: mmap.mmap, path: Path) -> None:
        self.data, self.path, self.at = data, path, 0

    def take(self, code: str) -> Any:
        start, self.at = self.at, self.at + struct.calcsize("<" + code)
        if self.at > len(self.data):
            raise _cut(self.path)
        return struct.unpack_from("<" + code, self.data, start)[0]

    def string(self) -> str:
        n = self.take("Q")
        start, self.at = self.at, self.at + n
        if self.at > len(self.data):
            raise _cut(self.path)
        return self.data[start : self.at].decode("utf-8", errors="replace")

    def skip_strings(self, n: int) -> None:
        at, data, end, length = self.at, self.data, len(self.data), struct.Struct("<Q").unpack_from
        for _ in range(n):
            if at + 8 > end:
                raise _cut(self.path)
            at += 8 + length(data, at)[0]
        self.at = at
        if at > end:
            raise _cut(self.path)

    def array(self) -> list[Any] | int:
        """The values, or only their number if there are more than MAX_KEPT."""
        kind, n = self.take("I"), self.take("Q")
        if n > len(self.data):
            raise _cut(self.path)
        if kind != _STRING and kind not in _SCALARS:
            raise _damaged(self.path, f"an array of values of type {kind}")
        if n <= MAX_KEPT:
            return [self.string() if kind == _STRING else self.take(_SCALARS[kind]) for _ in range(n)]
        if kind == _STRING:
            self.skip_strings(n)
        else:
            self.at += n * struct.calcsize("<" + _SCALARS[kind])
        return int(n)


def _cut(path: Path) -> ModelFileError:
    return DamagedFile(f"{path} is truncated: its header ends too early; download it again")


def _damaged(path: Path, what: str) -> ModelFileError:
    return DamagedFile(f"{path} is damaged: its header holds {what}; download it again")


def read_model_file(path: Path) -> ModelFile:
    """The header of a model's file, checked. Raises ModelFileError in one line that says what is wrong."""
    found = read_header(path, if_missing="; `relaylite models list` shows models that can be fetched")
    _check(found)
    return found


def read_header(path: Path, *, if_missing: str = "") -> ModelFile:
    """The header of any GGUF file; what it describes lies within the file. Raises ModelFileError in one line that says what is wrong.

    `if_missing`: how the line about a file that is not there ends.
    """
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise ModelFileError(f"{path} is a folder; name the GGUF file in it")
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(f"{path} is not a regular file; name a GGUF file")
        if status.st_size == 0:
            raise DamagedFile(f"{path} is empty; download it again")
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            found = _read(data, path, len(data))
    except FileNotFoundError as error:
        raise ModelFileError(f"there is no file {path}{if_missing}") from error
    except PermissionError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}; change its permissions") from error
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from error
    _check_size(found)
    return found


def _read(data: mmap.mmap, path: Path, n_bytes: int) -> ModelFile:
    if data[:4] != b"GGUF":
        raise DamagedFile(f"{path} is not a GGUF file: it starts with {data[:4]!r}; name a file in GGUF format")
    cursor = _Cursor(data, path)
    cursor.at = 4
    version = cursor.take("I")
    if version not in (2, 3):
        raise ModelFileError(f"{path} has GGUF version {version}; llama.cpp reads little-endian files of versions 2 and 3")
    n_tensors, n_keys = cursor.take("Q"), cursor.take("Q")
    if max(n_tensors, n_keys) > n_bytes:
        raise _cut(path)
    metadata: dict[str, Any] = {}
    types: dict[str, int] = {}
    lengths: dict[str, int] = {}
    for _ in range(n_keys):
        key, kind = cursor.string(), cursor.take("I")
        types[key] = kind
        if kind == _ARRAY:
            values = cursor.array()
            if isinstance(values, list):
                metadata[key] = values
            lengths[key] = len(values) if isinstance(values, list) else values
        elif kind == _STRING:
            metadata[key] = cursor.string()
        elif kind in _SCALARS:
            metadata[key] = cursor.take(_SCALARS[kind])
        else:
            raise _damaged(path, f"a value of type {kind} for {key!r}")
    tensors = tuple(_tensor(cursor) for _ in range(n_tensors))
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1:
        raise _damaged(path, f"an alignment of {alignment}")
    return ModelFile(path, n_bytes, metadata, types, lengths, tensors, data_start=-(-cursor.at // alignment) * alignment)


def _tensor(cursor: _Cursor) -> TensorEntry:
    name, n_dims = cursor.string(), cursor.take("I")
    if not 1 <= n_dims <= 4:
        raise _damaged(cursor.path, f"{n_dims} dimensions for tensor {name!r}")
    shape = tuple(cursor.take("Q") for _ in range(n_dims))
    kind, offset = cursor.take("I"), cursor.take("Q")
    if 0 in shape:
        raise _damaged(cursor.path, f"a dimension of zero for tensor {name!r}")
    n_elements = 1
    for size in shape:
        n_elements *= size
    block = _BLOCKS.get(kind)
    return TensorEntry(name, shape, kind, offset, n_elements // block[0] * block[1] if block else None)


def _check_size(file: ModelFile) -> None:
    """Raises ModelFileError if the tensors do not lie within the file."""
    end = file.data_start + max((tensor.offset + (tensor.n_bytes or 1) for tensor in file.tensors), default=0)
    if end > file.n_bytes:
        raise DamagedFile(f"{file.path} is truncated: {file.n_bytes} bytes of at least {end}; download it again")


def _check(file: ModelFile) -> None:
    """Raises ModelFileError if it is no model, or a size that every text model has is zero."""
    if not file.architecture:
        raise _damaged(file.path, "no architecture")
    if file.metadata.get("general.type", "model") != "model":
        raise ModelFileError(f"{file.path} is of type {file.metadata['general.type']!r}, not a model; name the model's file")
    if not file.tensors:
        raise ModelFileError(f"{file.path} holds no weights; name the model's file")
    for key in ("block_count", "embedding_length", "context_length"):
        value = file.value(key)
        if value is not None and (not isinstance(value, int) or value < 1):
            raise _damaged(file.path, f"{file.architecture + '.' + key!r} = {value!r}")
    for part in part_names(file.path.name)[1:]:
        if not (file.path.parent / part).exists():
            raise ModelFileError(f"{file.path} is the first of several files, and {part} is not beside it; download that too")


def part_names(name: str) -> tuple[str, ...]:
    """Names of all files of a model that is split, the first one first; just `name` if it is not split.

    Raises ModelFileError if `name` is a later part: llama.cpp wants the first.
    """
    match = re.fullmatch(r"(.+)-(\d{5})-of-(\d{5})\.gguf", name)
    if not match or int(match[3]) < 2:
        return (name,)
    if int(match[2]) != 1:
        raise ModelFileError(f"{name} is a later part of a model; name the first, {match[1]}-00001-of-{match[3]}.gguf")
    return tuple(f"{match[1]}-{part:05}-of-{match[3]}.gguf" for part in range(1, int(match[3]) + 1))
