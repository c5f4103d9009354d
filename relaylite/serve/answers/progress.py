"""`Progress`: what has been sent of each answer of a stream, so that its end can send what is left."""

from __future__ import annotations

from relaylite.completion.answer import Finished, Piece, Prefilled
from relaylite.serve.exchange import Outcome


class Progress:
    """Of one prompt: what came so far."""

    def __init__(self, prefilled: Prefilled) -> None:
        self._prefilled = prefilled
        self._sent: dict[int, int] = {}
        self._answers: list[Finished] = []

    def is_new(self, index: int) -> bool:
        """Whether nothing of this answer has been seen yet."""
        return index not in self._sent

    def add(self, piece: Piece) -> None:
        self._sent[piece.index] = self._sent.get(piece.index, 0) + len(piece.text)

    def end(self, finished: Finished) -> str:
        """The text that no piece has brought: characters that were held back, in case they began a stop string."""
        self._answers.append(finished)
        return finished.text[self._sent.get(finished.index, 0) :]

    def text_of(self, event: Piece | Finished) -> str:
        """The text to send for an event of the only answer."""
        if isinstance(event, Finished):
            return self.end(event)
        self.add(event)
        return event.text

    @property
    def outcome(self) -> Outcome:
        return Outcome(self._prefilled, tuple(self._answers))
