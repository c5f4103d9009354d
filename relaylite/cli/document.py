"""`Document`: the JSON that a command with --json prints on stdout, once, when it ends or fails. Commands fill it; the group prints it."""

from __future__ import annotations

import codecs
import json
from collections.abc import Sequence
from typing import Any

FLAG = "--json"


class Document:
    """`value` is what the command knows so far: plain values, None while there is nothing to print but an error."""

    def __init__(self, args: Sequence[str]) -> None:
        """`args`: the command line. Whether a document is wanted must be known even if the line cannot be parsed."""
        options = args[: args.index("--")] if "--" in args else args
        self.is_wanted = FLAG in options
        self.value: Any = None

    def text(self, error: str | None, encoding: str) -> str | None:
        """One JSON document, with `error` in it if there is one; None if none is wanted, or there is nothing to say.

        Where `encoding` is not UTF-8, or a text is none that UTF-8 has, such as the name of a file may be, all of it is ASCII.
        """
        if not self.is_wanted or (self.value is None and error is None):
            return None
        known = self.value if isinstance(self.value, dict) else {}
        value = self.value if error is None else {**known, "error": error}
        text = json.dumps(value, ensure_ascii=False, indent=2)
        try:
            is_fit = codecs.lookup(encoding).name == "utf-8" and bool(text.encode())
        except (LookupError, UnicodeEncodeError):
            is_fit = False
        return text if is_fit else json.dumps(value, indent=2)
