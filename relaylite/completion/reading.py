"""Messages out of plain Python values, and the one answer out of a completion's events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import cast, get_args

from relaylite.completion.answer import CompletionEvent, Finished
from relaylite.completion.request import ChatMessage, ChatRole
from relaylite.errors import Cancelled, UsageError


def messages_of(given: str | Iterable[ChatMessage | Mapping[str, str]]) -> tuple[ChatMessage, ...]:
    """One text is the user's message. Raises UsageError for what is no message."""
    return (ChatMessage("user", given),) if isinstance(given, str) else tuple(map(_message, given))


def last_answer(events: Iterator[CompletionEvent]) -> Finished:
    """Read to the end."""
    finished = [event for event in events if isinstance(event, Finished)]
    return _last(finished)


async def last_answer_async(events: AsyncIterator[CompletionEvent]) -> Finished:
    """Read to the end."""
    finished = [event async for event in events if isinstance(event, Finished)]
    return _last(finished)


def _last(finished: list[Finished]) -> Finished:
    if not finished:
        raise Cancelled("the completion ended without an answer")
    return finished[-1]


def _message(given: ChatMessage | Mapping[str, str]) -> ChatMessage:
    if isinstance(given, ChatMessage):
        return given
    if not isinstance(given, Mapping) or not isinstance(given.get("content"), str) or given.get("role") not in get_args(ChatRole):
        raise UsageError(f"a message is a mapping with a role ({', '.join(get_args(ChatRole))}) and a text as content, not {given!r:.200}")
    return ChatMessage(cast(ChatRole, given["role"]), given["content"])
