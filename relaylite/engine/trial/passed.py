"""Marks of trials that went well, in the cache folder. A mark that is lost costs another trial."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from relaylite import paths

MAX_MARKS = 1000  # the oldest go first


def holds(mark: str) -> bool:
    return mark in _read()


def add(mark: str) -> None:
    """Where the cache folder cannot be written, nothing is remembered."""
    file = _file()
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        marks = [*_read(), mark][-MAX_MARKS:]
        with paths.replacing(file) as written:
            written.write_text(json.dumps(marks), encoding="utf-8")


def _read() -> list[str]:
    try:
        marks = json.loads(_file().read_text(encoding="utf-8")) if _file().is_file() else []
    except (OSError, ValueError, RecursionError):
        return []
    return [mark for mark in marks if isinstance(mark, str)] if isinstance(marks, list) else []


def _file() -> Path:
    return paths.cache_folder() / "trials.json"
