"""The folder of kept conversations: one JSON file each, as `Chain.to_dict` gives it, under its name. The only door to that folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relaylite import paths
from relaylite.errors import RelayliteError, UsageError

if TYPE_CHECKING:
    from filelock import BaseFileLock

SUFFIX = ".json"
GLANCE_S = 0.3  # a process that lists sessions has each of them locked for a moment
_NAME = re.compile(r"[^\W_][\w.-]{0,63}")


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """`changed_s`: seconds of the epoch. `first_message` is "" for a file that cannot be read; so are the other texts.

    `is_open`: some process has it open, so that others can only read it.
    """

    name: str
    changed_s: float
    n_bytes: int
    n_rounds: int = 0
    agents: tuple[str, ...] = ()
    model: str = ""
    first_message: str = ""
    is_open: bool = False


def sessions(containing: str = "") -> list[SessionEntry]:
    """All of them, the last changed first; only those with these words in their name, their messages or their answers, if any are given."""
    found = [_described(path, containing.casefold()) for path in _files()]
    return sorted((entry for entry in found if entry), key=lambda entry: (-entry.changed_s, entry.name))


def load(name: str) -> dict[str, Any] | None:
    """The conversation, unchecked; None if there is none of this name. Raises UsageError in one line."""
    path = _path(name)
    try:
        data = json.loads(_text(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"cannot read session {name}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"session {name} is damaged: {error}; `relaylite sessions rm {name}` removes it") from error
    if not isinstance(data, dict):
        raise UsageError(f"session {name} is damaged: it holds no JSON object; `relaylite sessions rm {name}` removes it")
    return data


def save(name: str, conversation: Mapping[str, Any]) -> None:
    """Replace what was saved, whole or not at all. Raises UsageError for a bad name, RelayliteError if it cannot be written."""
    path = _path(name)
    paths.ensure(path.parent)
    try:
        with paths.replacing(path) as written, written.open("w", encoding="utf-8") as file:
            json.dump(conversation, file, ensure_ascii=False)
    except OSError as error:
        raise RelayliteError(f"session {name} is not saved: {error.strerror}: {path}") from error


def exists(name: str) -> bool:
    """Raises UsageError for a name that cannot be one."""
    return _path(name).exists()


def locked(name: str, wait_s: float = GLANCE_S) -> BaseFileLock | None:
    """The right to change this session until it is released or the process ends; None if somebody has it, and keeps it for `wait_s`.

    Raises UsageError for a name that cannot be one, RelayliteError if the folder cannot be written.
    """
    from filelock import FileLock, Timeout

    path = _lock_path(name)
    paths.ensure(path.parent)
    lock = FileLock(path, timeout=wait_s, mode=0o600, thread_local=False)
    try:
        lock.acquire(poll_interval=0.02)
    except Timeout:
        return None
    except (OSError, NotImplementedError) as error:
        raise RelayliteError(f"cannot lock session {name}: {error}") from error
    for unfinished in _path(name).parent.glob(f".{name}{SUFFIX}.*"):  # of a process that was killed while it wrote
        unfinished.unlink(missing_ok=True)
    return lock


def rename(name: str, new_name: str) -> None:
    """Raises UsageError if there is no `name`, `new_name` cannot be one or is taken, or if a process has the session open."""
    _check_known(name)
    with _owned(name), _owned(new_name):
        move(name, new_name)


def move(name: str, new_name: str) -> None:
    """Rename a session; whoever calls this has both names locked. Raises UsageError if there is a session `new_name`."""
    if exists(new_name):
        raise UsageError(f"there is a session {new_name} already")
    _replace(_path(name), _path(new_name), f"cannot rename session {name}")


def remove(name: str) -> None:
    """Put a session aside; `restore` brings it back. Raises UsageError if there is none of this name, or if a process has it open."""
    _check_known(name)
    with _owned(name):
        aside = _path_aside(name)
        paths.ensure(aside.parent)
        _replace(_path(name), aside, f"cannot remove session {name}")


def restore(name: str) -> None:
    """Bring back the session of this name that was removed last. Raises UsageError if there is none, or another one has its name now."""
    aside = _path_aside(name)
    if not aside.exists():
        raise UsageError(f"no session {name!r} was removed; removed are: {', '.join(removed()) or 'none'}")
    with _owned(name):
        if exists(name):
            raise UsageError(f"there is a session {name} again; `relaylite sessions rename {name} NEW` makes room")
        _replace(aside, _path(name), f"cannot restore session {name}")


def erase(name: str) -> None:
    """Delete a removed session for good. Raises UsageError if there is none of this name."""
    try:
        _path_aside(name).unlink()
    except OSError as error:
        raise UsageError(f"no session {name!r} was removed; removed are: {', '.join(removed()) or 'none'}") from error


def removed() -> list[str]:
    """Names of the sessions that can be restored."""
    return sorted(path.name.removesuffix(SUFFIX) for path in _path_aside("x").parent.glob(f"*{SUFFIX}"))


@contextmanager
def _owned(name: str) -> Iterator[None]:
    """Has a session locked inside. Raises UsageError if a process has it open."""
    lock = locked(name)
    if lock is None:
        raise UsageError(f"session {name} is open in another relaylite; close it there first")
    with lock:
        yield


def _check_known(name: str) -> None:
    if not exists(name):
        known = ", ".join(entry.name for entry in sessions()) or "none"
        raise UsageError(f"there is no session {name!r}; known: {known}")


def _replace(path: Path, target: Path, failed: str) -> None:
    try:
        path.replace(target)
        paths.to_disk(target.parent)
        paths.to_disk(path.parent)
    except OSError as error:
        raise UsageError(f"{failed}: {error.strerror}") from error


def _path(name: str) -> Path:
    return paths.sessions_folder() / f"{_checked(name)}{SUFFIX}"


def _path_aside(name: str) -> Path:
    return paths.sessions_folder() / "removed" / f"{_checked(name)}{SUFFIX}"


def _lock_path(name: str) -> Path:
    return paths.sessions_folder() / "locks" / f"{_checked(name)}.lock"


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot name a session; use letters, digits, '.', '-' and '_', at most 64")
    return name


def _files() -> Iterator[Path]:
    folder = paths.sessions_folder()
    return folder.glob(f"*{SUFFIX}") if folder.is_dir() else iter(())


def _text(path: Path) -> str:
    """What a file holds; a pipe of that name would never end."""
    if path.exists() and not path.is_file():
        raise ValueError("it is no regular file")
    return path.read_text(encoding="utf-8")


def _described(path: Path, containing: str) -> SessionEntry | None:
    """None if the words are not in it, or if it is gone meanwhile."""
    name = path.name.removesuffix(SUFFIX)
    try:
        stat = path.stat()
    except OSError:
        return None
    bare = SessionEntry(name, stat.st_mtime, stat.st_size)
    has_words = containing in name.casefold()
    try:
        text = _text(path)
        data = json.loads(text)
        agents = tuple(str(agent["name"]) for agent in data["agents"])
        tasks = [str(round["task"]) for round in data["rounds"]]
        has_words = has_words or any(containing in said.casefold() for said in _said(data))
        first = tasks[0] if tasks else ""
        entry = SessionEntry(name, stat.st_mtime, stat.st_size, len(tasks), agents, str(data["model"]), first, _is_open(name))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, AttributeError):
        return bare if has_words else None
    return entry if has_words else None


def _said(data: Mapping[str, Any]) -> Iterator[str]:
    """All messages and answers, those of other branches too."""
    for round in [*data["rounds"], *data.get("messages", ())]:
        yield str(round["task"])
    for turn in [turn for round in data["rounds"] for turn in round["turns"]] + [*data.get("answers", ())]:
        yield str(turn["text"])


def _is_open(name: str) -> bool:
    if not _lock_path(name).exists():
        return False
    lock = locked(name, 0)
    if lock is not None:
        lock.release()
    return lock is None
