"""Conversations on disk: JSON as the chain gives it, Markdown for people, and the history of typed messages."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from relaylite import paths
from relaylite.errors import UsageError
from relaylite.paths import read_whole, replacing
from relaylite.plugins.exporters import as_markdown
from relaylite.tui.conversation import RoundRecord

CONVERSATION_LIMIT = 500_000_000  # bytes; no conversation fills that
HISTORY_LIMIT = 500
HISTORY_ENTRY_LIMIT = 20_000  # characters; a pasted file is no message to call back


def write_text(path: Path, text: str) -> None:
    """Write whole or not at all; who may read it is as for any new file of the user. Raises UsageError in one line."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, mode=0o666) as written:
            written.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; choose another place") from error


def write_json(path: Path, data: dict[str, Any]) -> None:
    write_text(path, json.dumps(data, ensure_ascii=False, indent=1) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises UsageError in one line that names the file."""
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is no saved conversation: it is no file")
        if path.stat().st_size > CONVERSATION_LIMIT:
            raise UsageError(f"{path} is no saved conversation: it is larger than {CONVERSATION_LIMIT // 10**6} MB")
        data = json.loads(read_whole(path).decode())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no saved conversation: {error}") from error
    if not isinstance(data, dict):
        raise UsageError(f"{path} is no saved conversation: it holds no JSON object")
    return data


def markdown_of(rounds: Iterable[RoundRecord], model: str, policy: str) -> str:
    """The conversation as a Markdown document."""
    said = [
        {"task": each.task, "turns": [{"agent": turn.agent, "text": turn.text, "was_edited": turn.was_edited} for turn in each.turns]}
        for each in rounds
    ]
    return as_markdown({"model": model, "policy": policy, "rounds": said})


def kept_theme() -> str:
    """The theme that was chosen last in the app; "" for none."""
    try:
        return paths.theme_file().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def keep_theme(name: str) -> None:
    with suppress(UsageError):  # a theme that cannot be kept is no reason to disturb the user
        write_text(paths.theme_file(), f"{name}\n")


class History:
    """Messages typed before, oldest first, one JSON text a line. A file that is damaged, missing or no file is an empty history."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.entries: list[str] = []
        if path is not None:
            lines = _lines_of(path)
            if len(lines) > 2 * HISTORY_LIMIT:
                self._shorten(path, lines)
            self.entries += [entry for line in lines[-HISTORY_LIMIT:] if (entry := _entry_of(line))]

    @staticmethod
    def _shorten(path: Path, lines: list[str]) -> None:
        with suppress(UsageError):
            write_text(path, "\n".join(lines[-HISTORY_LIMIT:]) + "\n")

    def add(self, text: str) -> None:
        """Remember `text`; a repetition of the last one, or a very long one, is not written down."""
        if self.entries and self.entries[-1] == text:
            return
        self.entries.append(text)
        if self._path is None or len(text) > HISTORY_ENTRY_LIMIT:
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o600)  # no wait for a pipe's reader
            with os.fdopen(descriptor, "a", encoding="utf-8", errors="replace") as file:
                file.write(json.dumps(text) + "\n")
        except OSError:
            self._path = None  # a history that cannot be kept is no reason to disturb the user


def _lines_of(path: Path) -> list[str]:
    try:
        return read_whole(path).decode(errors="replace").splitlines()
    except OSError:
        return []


def _entry_of(line: str) -> str:
    """The message in a line of the history, "" if it holds none."""
    try:
        entry = json.loads(line)
        return entry if isinstance(entry, str) and entry.encode() else ""
    except (ValueError, RecursionError):
        return ""
