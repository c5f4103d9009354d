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


def places_of(wanted: str, text: str) -> list[tuple[int, int]]:
    """Where `wanted` stands in `text`, letters of either case: `[start, end)` each.

    Folding makes some letters longer, ß to ss, so a place in folded text is another one in the text.
    """
    wanted = wanted.casefold()
    folded = [letter.casefold() for letter in text]
    owners = [at for at, letters in enumerate(folded) for _ in letters]
    whole, places = "".join(folded), []
    at = whole.find(wanted) if wanted else -1
    while at >= 0:
        places.append((owners[at], owners[at + len(wanted) - 1] + 1))
        at = whole.find(wanted, at + len(wanted))
    return places
