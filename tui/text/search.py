"""Finding text in a conversation. Values only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from relaylite.tui.conversation import Conversation, RoundRecord, TurnRecord


@dataclass(frozen=True, slots=True)
class Hit:
    """A line of a message or an answer that holds the text."""

    item: RoundRecord | TurnRecord
    line: int


def find(conversation: Conversation, text: str) -> list[Hit]:
    """Every line that holds `text`, in order, letters of either case."""
    wanted = text.casefold()
    return list(_lines(conversation, wanted)) if wanted else []


def _lines(conversation: Conversation, wanted: str) -> Iterator[Hit]:
    for each in conversation.rounds:
        items: list[RoundRecord | TurnRecord] = [each, *each.turns]
        for item in items:
            source = item.task if isinstance(item, RoundRecord) else item.text
            for number, line in enumerate(source.splitlines()):
                if wanted in line.casefold():
                    yield Hit(item, number)
