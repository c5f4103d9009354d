"""`KeptStates`: the states of whole sequences, kept so that a prompt can go on from its earlier messages.

For models whose rows cannot be placed (MLA, recurrent, …). A kept state stands for exactly the tokens that llama.cpp computed, so what goes
on from it is exact. The live sequence counts as one of them. Nothing is ever moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from relaylite.engine import llama
from relaylite.engine.live_sequence import LiveSequence
from relaylite.machine.resources import available_bytes
from relaylite.reuse.plan import Kind, Plan, Quote, Segment
from relaylite.reuse.rows import RowLayout, Rows, Tokens, common_length

LEAST_PARTING = 32  # a state of its own is worth keeping for so many tokens more


@dataclass(frozen=True, eq=False, slots=True)
class Snapshot:
    """What llama.cpp wrote of the live sequence when it held `tokens`."""

    tokens: Tokens
    data: npt.NDArray[np.uint8]


class KeptStates:
    """Fulfils `planner.Matcher` in place of a store. Keeps states up to `budget_bytes`, by default an eighth of the free memory. The state
    that was not used for longest goes first.

    The memory of some models can be cut at any position: a state then serves every prompt that begins like it. Recurrent layers, and
    windows in a saved state, cannot be cut: a state then serves only prompts that begin with all of it.
    """

    def __init__(
        self, model: llama.Model, context: llama.Context, sequence: LiveSequence, layout: RowLayout, budget_bytes: int | None
    ) -> None:
        self._context, self._sequence, self._layout = context, sequence, layout
        self._budget = available_bytes() // 8 if budget_bytes is None else budget_bytes
        self._is_live_cuttable = not model.is_recurrent
        self._is_cuttable = self._is_live_cuttable and model.n_window == 0
        self._kept: list[Snapshot] = []  # the one used last at the end

    @property
    def reach(self) -> str:
        """What a prompt may go on from, in words."""
        return "any start of a kept state" if self._is_cuttable else "a whole kept state"

    @property
    def n_bytes(self) -> int:
        return sum(snapshot.data.nbytes for snapshot in self._kept)

    def prefix(self, tokens: Tokens, *, exact: bool) -> Segment | None:
        """The longest start of `tokens`, without their last, that can be taken up. Its rows hold no bytes: the state is in the engine."""
        n = self._longest(tokens[: len(tokens) - 1])[1]
        rows = Rows(tokens[:n].copy(), 0, n, np.empty(0, np.uint8), self._layout)
        return Segment(0, n, Kind.PREFIX, rows) if n else None

    def spans(self, tokens: Tokens, start: int, min_length: int, quotes: Sequence[Quote] = ()) -> list[Segment]:
        return []

    def take_up(self, plan: Plan) -> int:
        """Bring the live sequence to the plan's prefix. Returns the positions now held."""
        snapshot, n = self._longest(plan.tokens[: plan.count(Kind.PREFIX)])
        if snapshot is not None:
            self._kept.remove(snapshot)  # for good, if llama.cpp refuses it
            self._sequence.restore(snapshot.tokens.tolist(), snapshot.data)
            self._kept.append(snapshot)
        if n:
            self._sequence.cut(n)
        else:
            self._sequence.forget()
        return n

    def parting(self, tokens: Tokens) -> int:
        """How many first tokens are shared with a kept state that cannot be shortened to them, 0 if none is worth a state of its own.

        A state kept at this position serves the next prompt that begins alike.
        """
        if self._is_cuttable:
            return 0
        n = max((common_length(snapshot.tokens, tokens[:-1]) for snapshot in self._kept), default=0)
        return n if n >= len(self._sequence) + LEAST_PARTING else 0

    def keep(self) -> None:
        """Keep the live sequence as it stands."""
        tokens = np.array(self._sequence.tokens, np.int32)
        n_bytes = self._context.state_bytes
        if not len(tokens) or not self._is_live_whole() or n_bytes > self._budget:
            return
        self._kept = [one for one in self._kept if not self._replaces(tokens, one)]
        while self._kept and self.n_bytes + n_bytes > self._budget:
            self._kept.pop(0)
        data = self._context.read_state()
        if data.nbytes == n_bytes:  # less: llama.cpp could not write it
            self._kept.append(Snapshot(tokens, data))

    def _replaces(self, tokens: Tokens, old: Snapshot) -> bool:
        n = len(old.tokens)
        return (n == len(tokens) or (self._is_cuttable and n < len(tokens))) and np.array_equal(old.tokens, tokens[:n])

    def _longest(self, tokens: Tokens) -> tuple[Snapshot | None, int]:
        """The state that reaches furthest into `tokens`, None if it is the live sequence, and how far it reaches."""
        live = np.array(self._sequence.tokens, np.int32)
        is_cuttable = self._is_live_cuttable and self._context.first_position() == 0
        best: tuple[Snapshot | None, int] = (None, _reach(live, tokens, is_cuttable) if self._is_live_whole() else 0)
        for snapshot in self._kept:
            n = _reach(snapshot.tokens, tokens, self._is_cuttable)
            if n > best[1]:
                best = (snapshot, n)
        return best

    def _is_live_whole(self) -> bool:
        """Whether the memory holds just the sequence's tokens. A memory that cannot be cut still holds what was cut off the sequence."""
        return self._context.length() == len(self._sequence.tokens)


def _reach(known: Tokens, tokens: Tokens, is_cuttable: bool) -> int:
    n = common_length(known, tokens)
    return n if is_cuttable or n == len(known) else 0
