"""`KeptStates`: states of whole sequences, kept to go on from, for models whose rows cannot be placed (MLA, recurrent, …).

Exact only: a state stands for exactly the tokens that llama.cpp computed. The live sequence counts as one of them. Nothing is ever moved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from relaylite.engine import llama
from relaylite.engine.live_sequence import LiveSequence, common_length
from relaylite.machine.resources import available_bytes
from relaylite.reuse.plan import Kind, Match, Plan
from relaylite.reuse.rows import RowLayout, Rows, Tokens

LEAST_PARTING = 32  # tokens, for which a state of their own is worth keeping


@dataclass(frozen=True, eq=False, slots=True)
class Snapshot:
    """What llama.cpp wrote of the live sequence when it held `tokens`."""

    tokens: Tokens
    data: npt.NDArray[np.uint8]


class KeptStates:
    """Fulfils `planner.Matcher` in place of a store. Keeps states up to `budget_bytes`, by default an eighth of what is free; the one
    that was not used for longest goes first.

    Some memories can be cut at any position, so that a state serves every prompt that begins alike. Others (recurrent layers, windows in
    a saved state) cannot: a state then serves prompts that begin with all of it.
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

    def prefix(self, tokens: Tokens, *, exact: bool) -> Match | None:
        """The longest start of `tokens`, without their last, that can be taken up. Its rows are empty: they are the engine's."""
        n = self._longest(tokens[: len(tokens) - 1])[1]
        return Match(0, Rows(tokens[:n].copy(), 0, n, np.empty(0, np.uint8), self._layout), 0, n) if n else None

    def spans(self, tokens: Tokens, start: int, min_length: int) -> list[Match]:
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
        """Where `tokens` part from a kept sequence whose state cannot be cut there: a state to keep for the next prompt that begins so."""
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
        """The state that reaches furthest into `tokens`, None for the live sequence, and how far."""
        live = np.array(self._sequence.tokens, np.int32)
        is_cuttable = self._is_live_cuttable and self._context.first_position() == 0
        best: tuple[Snapshot | None, int] = (None, _reach(live, tokens, is_cuttable) if self._is_live_whole() else 0)
        for snapshot in self._kept:
            n = _reach(snapshot.tokens, tokens, self._is_cuttable)
            if n > best[1]:
                best = (snapshot, n)
        return best

    def _is_live_whole(self) -> bool:
        """Whether the memory holds just these tokens: one that cannot be cut also holds what was cut off them."""
        return self._context.length() == len(self._sequence.tokens)


def _reach(known: Tokens, tokens: Tokens, is_cuttable: bool) -> int:
    n = common_length(known, tokens)
    return n if is_cuttable or n == len(known) else 0
