"""`Loop`: whether an answer only repeats itself any more. Knows token ids alone."""

from __future__ import annotations

import numpy as np

LONGEST = 128  # tokens of a sequence that is looked for
N_TOKENS = 256  # that the repetitions of a sequence make up; of a short one fewer
MOST, FEWEST = 10, 4  # times that a sequence must stand in a row, the shorter it is the more
LEAST_TOKENS = 96


class Loop:
    """Is fed the tokens of an answer. Sure of a loop once the answer ends in one sequence, of up to `LONGEST` tokens, many times in a row.

    How many times: as many as make `N_TOKENS` tokens, but not fewer than `FEWEST`; `MOST` are enough if they make `LEAST_TOKENS`. So a
    table, or nine equal rows of a board, is no loop.
    """

    def __init__(self) -> None:
        period = np.arange(1, LONGEST + 1)
        times = np.clip(-(-N_TOKENS // period), FEWEST, MOST)
        self._enough = np.maximum(times * period, LEAST_TOKENS) - period  # tokens in a row that equal the one a period before
        self._equal = np.zeros(LONGEST, np.int64)  # for each period, so many are it by now
        self._last = np.full(LONGEST, -1, np.int64)  # tokens, the last one first

    def closes_with(self, token: int) -> int:
        """Take the next token. The length of the sequence that the answer repeats, 0 as long as it does not."""
        self._equal = np.where(self._last == token, self._equal + 1, 0)
        self._last = np.roll(self._last, 1)
        self._last[0] = token
        found = np.flatnonzero(self._equal >= self._enough)
        return int(found[0]) + 1 if len(found) else 0
