"""`Tokenizer`: what prompts and conversations ask of a model's vocabulary. `engine.llama.Vocab` fulfils it.

`known_ids`: the door for token ids that come from outside.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Protocol

from relaylite.errors import UsageError


class Tokenizer(Protocol):
    """The vocabulary of a model. It adds neither BOS nor EOS by itself, and no space before the text."""

    n_tokens: int  # ids are 0 to n_tokens − 1
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


def known_ids(ids: Iterable[object], n_tokens: int, where: str) -> tuple[int, ...]:
    """`ids`, as a file or a caller gave them, for a vocabulary of `n_tokens`. Raises UsageError in one line that says `where`."""
    known = []
    for token in ids:
        if isinstance(token, bool) or not isinstance(token, Integral):
            raise UsageError(f"{where}: {token!r:.40} is no token id; ids are whole numbers")
        number = int(token)
        if not 0 <= number < n_tokens:
            named = number if number.bit_length() < 64 else "of such an id"
            raise UsageError(f"{where}: there is no token {named}; the vocabulary of this model has the ids 0 to {n_tokens - 1}")
        known.append(number)
    return tuple(known)
