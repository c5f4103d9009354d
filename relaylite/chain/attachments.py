"""`Attachment`: a text file that goes with a message. Every agent sees it before the task, so all of them have the same tokens for it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from relaylite.errors import UsageError
from relaylite.paths import expanded, read_whole
from relaylite.terminal_text import one_line

WORDS_NAMED, WORD_WIDTH = 4, 40  # of words without a file: how many a notice names, and how much of each

_NAMED = re.compile(r"""(?<!\S)@(?:"[^"\n]+"|'[^'\n]+'|\S+)""")


@dataclass(frozen=True, slots=True)
class Attachment:
    """`source` is the file as the user named it; it stands above the text in the prompt."""

    source: str
    text: str


def read_attachment(path: str | Path) -> Attachment:
    """The file at `path`. Raises UsageError in one line if it cannot be read, is empty, or is no UTF-8 text.

    A name that is no UTF-8 text stands in the prompt with a mark for each byte that is none.
    """
    try:
        text = read_whole(expanded(path), may_be_pipe=True).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot attach {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot attach {path}: it is no UTF-8 text (byte {error.start + 1})") from error
    if not text.strip():
        raise UsageError(f"cannot attach {path}: it is empty")
    return Attachment(os.fsencode(path).decode(errors="replace"), text)


def attached_in(message: str) -> tuple[list[Attachment], list[str]]:
    """The files that words like `@notes.md` or `@"my notes.md"` in a message name, and those words that name no file here.

    Raises as `read_attachment`.
    """
    words = dict.fromkeys(word for word in _NAMED.findall(message) if word.strip("@"))
    files = {word: _file_of(word) for word in words}
    found = dict.fromkeys(name for name in files.values() if name)
    return [read_attachment(name) for name in found], [word for word, name in files.items() if not name]


def _file_of(word: str) -> str:
    """The file that `@notes.md` names, also before a comma or at the end of a sentence; "" if none is there, or none can be seen."""
    if len(word) > 3 and word[1] in "\"'" and word.endswith(word[1]) and _is_file(word[2:-1]):
        return word[2:-1]
    names = (word[1:], word[1:].rstrip(".,;:!?)\"'"))
    return next((name for name in names if name and _is_file(name)), "")


def _is_file(name: str) -> bool:
    try:
        return expanded(name).is_file()
    except (OSError, ValueError):  # too long for a name, or in a folder that cannot be searched
        return False


def words_without_file(words: list[str]) -> str:
    """The sentence for words that look like attachments and name no file; "" without any."""
    named = [one_line(word, WORD_WIDTH) for word in words[:WORDS_NAMED]]
    rest = f" and {len(words) - WORDS_NAMED} more" if len(words) > WORDS_NAMED else ""
    return f"no file here for {', '.join(named)}{rest}: sent as text" if words else ""
