"""`@file` in a message that is being typed: which file is meant, and which there are."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path

FILES_LIMIT, SECONDS_LIMIT = 5_000, 0.5  # of one look at the folder, nearest files first
OFFERED = 6

_BEGUN = re.compile(r'(?:^|(?<=\s))@(?:"([^"]*)|([^\s"]*))$')


def begun(before: str) -> tuple[int, str] | None:
    """Where the mention begins that ends with the line's text `before` the cursor, and what of the name was typed."""
    match = _BEGUN.search(before)
    return (match.start(), match[1] if match[1] is not None else match[2]) if match else None


def files_below(folder: Path) -> list[str]:
    """Files in the folder and below, the nearest first, without hidden ones and without what links to folders. It ends early if need be."""
    found: list[str] = []
    folders, end = deque([(folder, "")]), time.monotonic() + SECONDS_LIMIT
    while folders and len(found) < FILES_LIMIT and time.monotonic() < end:
        place, prefix = folders.popleft()
        try:
            entries = sorted(os.scandir(place), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith(".") or not entry.name.isprintable() or '"' in entry.name:
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append((Path(entry.path), f"{prefix}{entry.name}/"))
            elif entry.is_file():
                found.append(prefix + entry.name)
    return found[:FILES_LIMIT]


def matching(files: Iterable[str], typed: str) -> list[str]:
    """The files to offer for what was typed: those whose name begins so, then those that hold it anywhere."""
    wanted = typed.casefold()
    found = [file for file in files if wanted in file.casefold()]
    found.sort(key=lambda file: not (file.casefold().startswith(wanted) or file.rpartition("/")[2].casefold().startswith(wanted)))
    return [] if found[:1] == [typed] else found[:OFFERED]


def mention_of(file: str) -> str:
    """How the file is named in a message."""
    return f'@"{file}" ' if re.search(r"\s", file) else f"@{file} "
