"""Bytes of sampled tokens → text that may be shown: whole UTF-8 characters, nothing of a stop string. Knows no model."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field


@dataclass(slots=True)
class TextStream:
    """Takes the bytes of one token after the other, and holds back what may still become a stop string or a whole character.

    `stop`: the stop strings. `stopped_by`: the one that came, "" for none; of several that begin at one place, the first in `stop`.
    `n_kept`: of the tokens fed, those whose bytes all lie before it.
    """

    stop: tuple[str, ...] = ()
    stopped_by: str = ""
    n_kept: int = 0
    _held: str = ""
    _n_given: int = 0  # characters given out or held, before `_held`
    _decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))
    _ends: list[int] = field(default_factory=list)  # characters after each token, an unfinished one included

    @property
    def is_stopped(self) -> bool:
        return self.stopped_by != ""

    def feed(self, piece: bytes) -> str:
        """The text that may be shown now; "" if all is held back."""
        if self.is_stopped:
            return ""
        self._held += self._decoder.decode(piece)
        has_unfinished = bool(self._decoder.getstate()[0])
        self._ends.append(self._n_given + len(self._held) + has_unfinished)
        self.n_kept = len(self._ends)
        return self._cut() or self._release(self._longest_start_of_stop())

    def finish(self) -> str:
        """The text that is still held back when the answer ends; an unfinished character is dropped."""
        return "" if self.is_stopped else self._release(0)

    def _cut(self) -> str:
        found = [(at, stop) for stop in self.stop if (at := self._held.find(stop)) >= 0]
        if not found:
            return ""
        cut, self.stopped_by = min(found, key=lambda each: each[0])
        end = self._n_given + cut
        self.n_kept = sum(1 for n in self._ends if n <= end)
        text, self._held = self._held[:cut], ""
        return text

    def _release(self, n_held: int) -> str:
        if self.is_stopped:
            return ""
        at = len(self._held) - n_held
        text, self._held = self._held[:at], self._held[at:]
        self._n_given += at
        return text

    def _longest_start_of_stop(self) -> int:
        """Characters at the end of the held text with which a stop string may begin."""
        longest = max((len(stop) for stop in self.stop), default=1) - 1
        for n in range(min(longest, len(self._held)), 0, -1):
            tail = self._held[-n:]
            if any(stop.startswith(tail) for stop in self.stop):
                return n
        return 0
