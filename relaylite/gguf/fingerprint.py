"""What names a model's weights: a digest of the file's content, remembered by path, size, inode and times of change.

Whoever replaces a file can set its time of modification, but not the time of its last change of any kind.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from relaylite import paths
from relaylite.gguf.digest import hex_digest


def of_file(path: Path, while_reading: Callable[[], None] = lambda: None) -> str:
    """Hex digest of the content of `path`. Reads the whole file once; later calls find the digest in the cache folder.

    `while_reading` is called after each MiB; what it raises ends the call. Raises OSError.
    """
    stat = path.stat()
    key = f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}|{stat.st_ctime_ns}|{stat.st_ino}"
    known = _read_known()
    if key not in known:
        known[key] = hex_digest(path, hashlib.blake2b(digest_size=16), while_reading)
        _write_known(known)
    return known[key]


def combined(*parts: object) -> str:
    """Hex digest of values that must all be equal for rows to be interchangeable."""
    return hashlib.blake2b("|".join(map(str, parts)).encode(), digest_size=16).hexdigest()


def _read_known() -> dict[str, str]:
    try:
        known = json.loads(paths.read_whole(_known_file()))
    except (OSError, ValueError, RecursionError):
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
