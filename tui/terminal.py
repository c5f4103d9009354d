"""The terminal belongs to the app: what native code writes to file descriptors 1 and 2 goes to a log file meanwhile."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOG_BYTES = 5_000_000


def open_log(path: Path) -> int:
    """A descriptor that appends to `path`; a log that grew large starts anew. If `path` cannot be opened, what is written goes nowhere."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > LOG_BYTES:
            path.unlink()
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o600)  # no wait for a pipe's reader
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


@contextmanager
def owned_terminal(log_file: Path) -> Iterator[None]:
    """Until the block ends, descriptors 1 and 2 lead to the log. Textual draws on copies of them, and asks the first for the size."""
    before = sys.__stdout__, sys.__stderr__
    sys.stdout.flush()
    sys.stderr.flush()
    log = open_log(log_file)
    copies = os.dup(1), os.dup(2)
    os.dup2(log, 1)
    os.dup2(log, 2)
    output, screen = (os.fdopen(copy, "w", encoding="utf-8", errors="replace", closefd=False) for copy in copies)
    sys.__stdout__, sys.__stderr__ = output, screen  # type: ignore[misc]
    handler = logging.StreamHandler(os.fdopen(os.dup(log), "a", encoding="utf-8", errors="replace"))
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.stream.close()
        for stream in (output, screen):
            with suppress(OSError, ValueError):
                stream.flush()
        sys.__stdout__, sys.__stderr__ = before  # type: ignore[misc]
        os.dup2(copies[0], 1)
        os.dup2(copies[1], 2)
        for descriptor in (log, *copies):
            os.close(descriptor)
