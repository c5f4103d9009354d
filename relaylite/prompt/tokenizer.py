"""`Tokenizer`: what prompts and conversations ask of a model's vocabulary. `engine.llama.Vocab` fulfils it."""

from __future__ import annotations

from typing import Protocol


class Tokenizer(Protocol):
    """The vocabulary of a model. It adds neither BOS nor EOS by itself, and no space before the text."""

    bos: int | None  # the token that must stand first exactly once, else None

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        """The ids of `text`; with `parse_special`, the names of control tokens become those tokens."""
        ...

    def piece(self, token: int) -> bytes:
        """The bytes of one token, perhaps a part of a character; b"" for control tokens."""
        ...

    def is_eog(self, token: int) -> bool:
        """Whether an answer ends with this token."""
        ...
