"""`read_task`: the task of a run, from an argument, a file or standard input. It is checked before a model is loaded."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

from relaylite.errors import UsageError
from relaylite.paths import read_whole


def read_task(argument: str | None, file: Path | None) -> str:
    """The task as text. Raises UsageError if there is none, more than one, or if it is no UTF-8 text."""
    if argument not in (None, "-") and file is not None:
        raise UsageError("the task is given twice: as an argument and with --task-file; leave one out")
    if file is not None and str(file) != "-":
        task = _decoded(_read(file), str(file))
    elif argument not in (None, "-"):
        task = argument or ""
    elif sys.stdin.isatty() and argument is None and file is None:
        raise UsageError("there is no task; give it as an argument, with --task-file, or on standard input")
    else:
        task = _decoded(sys.stdin.buffer.read(), "standard input")
    return checked(task, "the task")


def has_unread_input() -> bool:
    """Whether there is something on standard input, a pipe or a file, that nobody has read. It does not wait."""
    with suppress(OSError, ValueError, ImportError):
        from fcntl import ioctl
        from termios import FIONREAD

        descriptor = sys.stdin.fileno()
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            return status.st_size > os.lseek(descriptor, 0, os.SEEK_CUR)
        if stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode):
            n_bytes = bytearray(4)
            ioctl(descriptor, FIONREAD, n_bytes)
            return any(n_bytes)
    return False


def checked(text: str, what: str) -> str:
    """`text`, if it says something and can be written as UTF-8."""
    if not text.strip():
        raise UsageError(f"{what} is empty; write what the agents shall do")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{what} is not valid text: character {error.start + 1} is a lone surrogate; pass it as UTF-8") from error
    return text


def _read(file: Path) -> bytes:
    try:
        return read_whole(file, may_be_pipe=True)
    except OSError as error:
        raise UsageError(f"cannot read the task file {file}: {error.strerror}") from error


def _decoded(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{source} is not UTF-8 text (byte {error.start + 1}); convert it first") from error
