"""`Attachment`: a text file that goes with a message. Every agent sees it before the task, so it is the same run of tokens for all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from relaylite.errors import UsageError


@dataclass(frozen=True, slots=True)
class Attachment:
    """`source` is the file as the user named it; it stands above the text in the prompt."""

    source: str
    text: str


def read_attachment(path: str | Path) -> Attachment:
    """The file at `path`. Raises UsageError in one line if it cannot be read, is empty, or is no UTF-8 text."""
    try:
        text = Path(path).expanduser().read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot attach {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot attach {path}: it is no UTF-8 text (byte {error.start + 1})") from error
    if not text.strip():
        raise UsageError(f"cannot attach {path}: it is empty")
    return Attachment(str(path), text)


def attached_in(message: str) -> list[Attachment]:
    """The files that words like `@notes.md` in a message name; a word that names no file is just a word."""
    names = [word[1:] for word in message.split() if word.startswith("@") and len(word) > 1]
    return [read_attachment(name) for name in dict.fromkeys(names) if Path(name).expanduser().is_file()]
