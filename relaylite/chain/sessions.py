"""Named conversations that go on another day: one JSON file each, as `Chain.to_dict` gives it. The only door to their folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relaylite import paths
from relaylite.errors import RelayliteError, UsageError

SUFFIX = ".json"
_NAME = re.compile(r"[^\W_][\w.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Session:
    """`changed_s`: seconds of the epoch. `first_message` is "" for a file that cannot be read; so are the other texts."""

    name: str
    changed_s: float
    n_bytes: int
    n_rounds: int = 0
    agents: tuple[str, ...] = ()
    model: str = ""
    first_message: str = ""


def sessions() -> list[Session]:
    """All of them, the last changed first."""
    folder = paths.sessions_folder()
    found = [_describe(path) for path in folder.glob(f"*{SUFFIX}")] if folder.is_dir() else []
    return sorted(found, key=lambda session: (-session.changed_s, session.name))


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


def remove(name: str) -> None:
    """Raises UsageError if there is none of this name."""
    try:
        _path(name).unlink()
    except FileNotFoundError:
        known = ", ".join(session.name for session in sessions()) or "none"
        raise UsageError(f"there is no session {name!r}; known: {known}") from None
    except OSError as error:
        raise UsageError(f"cannot remove session {name}: {error.strerror}") from error


def _path(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot name a session; use letters, digits, '.', '-' and '_', at most 64")
    return paths.sessions_folder() / f"{name}{SUFFIX}"


def _text(path: Path) -> str:
    """What a file holds; a pipe of that name would never end."""
    if path.exists() and not path.is_file():
        raise ValueError("it is no regular file")
    return path.read_text(encoding="utf-8")


def _describe(path: Path) -> Session:
    name, stat = path.name.removesuffix(SUFFIX), path.stat()
    bare = Session(name, stat.st_mtime, stat.st_size)
    try:
        data = json.loads(_text(path))
        agents = tuple(str(agent["name"]) for agent in data["agents"])
        tasks = [str(round["task"]) for round in data["rounds"]]
        return Session(name, stat.st_mtime, stat.st_size, len(tasks), agents, str(data["model"]), tasks[0] if tasks else "")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return bare
