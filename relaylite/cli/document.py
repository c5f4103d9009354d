"""`Document`: the JSON that a command with --json prints on stdout, once, when it ends or fails. Commands fill it; the group prints it."""

from __future__ import annotations

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

    def text(self, error: str | None) -> str | None:
        """One JSON document, with `error` in it if there is one; None if none is wanted, or there is nothing to say."""
        if not self.is_wanted or (self.value is None and error is None):
            return None
        known = self.value if isinstance(self.value, dict) else {}
        return json.dumps(self.value if error is None else {**known, "error": error}, ensure_ascii=False, indent=2)
