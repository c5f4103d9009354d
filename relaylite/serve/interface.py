"""`CompletionsLike`: what the server asks of a model.

`Relay.completions` fulfils it, `tests/support/scripted_completions.py` does with a script.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from relaylite.completion.overview import Overview
from relaylite.completion.request import ChatMessage, CompletionRequest
from relaylite.completion.ticket import Ticket
from relaylite.engine.interface import ModelInfo


class CompletionsLike(Protocol):
    """Requests on one model, from any thread."""

    @property
    def info(self) -> ModelInfo: ...

    def submit(self, request: CompletionRequest) -> Ticket:
        """Queue the request. Raises UsageError or ContextOverflow at once for what cannot be, EngineClosed after `close`."""
        ...

    def overview(self) -> Overview: ...

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]: ...

    def piece(self, token: int) -> bytes:
        """The bytes of one token; b"" for control tokens."""
        ...

    def render(self, messages: Sequence[ChatMessage]) -> tuple[str, tuple[int, ...]]:
        """The prompt that these messages become: its text and its tokens."""
        ...

    def close(self) -> None: ...
