"""`Attachment`: a text file that goes with a message. Every agent sees it before the task, so all of them have the same tokens for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from relaylite.errors import UsageError
from relaylite.paths import expanded

_NAMED = re.compile(r"""(?<!\S)@(?:"[^"\n]+"|'[^'\n]+'|\S+)""")


@dataclass(frozen=True, slots=True)
class Attachment:
    """`source` is the file as the user named it; it stands above the text in the prompt."""

    source: str
    text: str


def read_attachment(path: str | Path) -> Attachment:
    """The file at `path`. Raises UsageError in one line if it cannot be read, is empty, or is no UTF-8 text."""
    try:
        text = expanded(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot attach {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot attach {path}: it is no UTF-8 text (byte {error.start + 1})") from error
    if not text.strip():
        raise UsageError(f"cannot attach {path}: it is empty")
    return Attachment(str(path), text)


def attached_in(message: str) -> tuple[list[Attachment], list[str]]:
    """The files that words like `@notes.md` or `@"my notes.md"` in a message name, and those words that name no file here.

    Raises as `read_attachment`.
    """
    words = dict.fromkeys(word for word in _NAMED.findall(message) if word.strip("@"))
    files = {word: _file_of(word) for word in words}
    found = dict.fromkeys(name for name in files.values() if name)
    return [read_attachment(name) for name in found], [word for word, name in files.items() if not name]


def _file_of(word: str) -> str:
    """The file that `@notes.md` names, also before a comma or at the end of a sentence; "" if none is there."""
    if len(word) > 3 and word[1] in "\"'" and word.endswith(word[1]) and expanded(word[2:-1]).is_file():
        return word[2:-1]
    names = (word[1:], word[1:].rstrip(".,;:!?)\"'"))
    return next((name for name in names if name and expanded(name).is_file()), "")


def words_without_file(words: list[str]) -> str:
    """The sentence for words that look like attachments and name no file; "" without any."""
    return f"no file here for {', '.join(words)}: sent as text" if words else ""
