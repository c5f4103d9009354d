"""What names a model's weights: a hash of the file's content, remembered by path, size, inode and times of change.

A time of modification can be set by who replaces a file; the time of its last change of any kind cannot.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from relaylite import paths


def of_file(path: Path, while_reading: Callable[[], None] = lambda: None) -> str:
    """Hex digest of the content of `path`. Reads the whole file once; later calls find the digest in the cache folder.

    `while_reading` is called after each MiB; what it raises ends the call. Raises OSError.
    """
    stat = path.stat()
    key = f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}|{stat.st_ctime_ns}|{stat.st_ino}"
    known = _read_known()
    if key not in known:
        known[key] = _digest(path, while_reading)
        _write_known(known)
    return known[key]


def _digest(path: Path, while_reading: Callable[[], None]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    chunk = memoryview(bytearray(1 << 20))
    with path.open("rb", buffering=0) as file:
        while n := file.readinto(chunk):
            digest.update(chunk[:n])
            while_reading()
    return digest.hexdigest()


def combined(*parts: object) -> str:
    """Hex digest of values that must all be equal for rows to be interchangeable."""
    return hashlib.blake2b("|".join(map(str, parts)).encode(), digest_size=16).hexdigest()


def _read_known() -> dict[str, str]:
    try:
        known = json.loads(_known_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {key: value for key, value in known.items() if isinstance(value, str)} if isinstance(known, dict) else {}


def _write_known(known: dict[str, str]) -> None:
    file = _known_file()
    with suppress(OSError):  # a cache folder that cannot be written costs a hash per start, nothing else
        file.parent.mkdir(parents=True, exist_ok=True)
        with paths.replacing(file) as written:
            written.write_text(json.dumps(known), encoding="utf-8")


def _known_file() -> Path:
    return paths.cache_folder() / "fingerprints.json"
