"""The digest of a file that may be many gigabytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

_CHUNK_BYTES = 1 << 20


class Hash(Protocol):
    """One of hashlib's."""

    def update(self, data: memoryview, /) -> None: ...
    def hexdigest(self) -> str: ...


def hex_digest(path: Path, by: Hash, while_reading: Callable[[], None]) -> str:
    """Of the content of `path`. `while_reading` is called after each MiB, and what it raises comes out. Raises OSError."""
    chunk = memoryview(bytearray(_CHUNK_BYTES))
    with path.open("rb", buffering=0) as file:
        while n := file.readinto(chunk):
            by.update(chunk[:n])
            while_reading()
    return by.hexdigest()
