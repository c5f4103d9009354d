"""Lines that llama.cpp logs go to Python's logging, under "relaylite.llama". The last errors among them are kept for messages.

The command line and the app decide where the lines are shown.
"""

from __future__ import annotations

import logging
from collections import deque

log = logging.getLogger("relaylite.llama")

_LEVELS = {1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}
_errors: deque[str] = deque(maxlen=20)
_level = logging.DEBUG
_hushed: set[int] = set()


def take(level: int, text: bytes) -> None:
    """One line, or a part of it, with llama.cpp's number of its level."""
    global _level
    line = text.decode("utf-8", "replace").rstrip("\n")
    _level = _LEVELS.get(level, _level)  # 5 continues the line before
    if line.strip(". "):
        log.log(logging.DEBUG if _hushed else _level, "%s", line)
        if _level >= logging.ERROR:
            _errors.append(line)


def hush(key: int) -> None:
    """Log every line at the level DEBUG, until `unhush` is called with the same key."""
    _hushed.add(key)


def unhush(key: int) -> None:
    _hushed.discard(key)


def clear_errors() -> None:
    _errors.clear()


def first_error() -> str:
    """The first error since `clear_errors`, as one short line. Later errors only say what failed because of it."""
    return _errors[0].strip()[:200] if _errors else "no reason given"


def last_error() -> str:
    """The last error, as one short line."""
    return _errors[-1].strip()[:200] if _errors else "no reason given"
