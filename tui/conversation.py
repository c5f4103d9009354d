"""The conversation as the app shows it: rounds of turn records, and what they saved. Values only, no widgets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from relaylite.events import PromptPart, Turn
from relaylite.metrics import CellMap, TurnMetrics
from relaylite.terminal_text import one_line

State = Literal["waiting", "reusing", "repairing", "reading", "writing", "done", "failed", "stopped"]
FINISHED: tuple[State, ...] = ("done", "failed", "stopped")
ONLY_ONE = (0, 1)  # the first of one version


@dataclass(slots=True, eq=False)
class TurnRecord:
    """One agent's turn, from its start on. `text` grows while it is written; `full_ms` is a measured full prefill.

    `is_kept`: the chain has this answer too; a turn that failed or was stopped before its first token is only shown.
    `index`: its place among the answers of the round; `place`: that of its agent in the chain. `version`: which of how many it is.
    """

    agent: str
    index: int
    round: int
    state: State = "waiting"
    parts: tuple[PromptPart, ...] = ()
    text: str = ""
    n_tokens: int = 0
    metrics: TurnMetrics | None = None
    cells: CellMap | None = None
    finish_reason: str = ""
    was_edited: bool = False
    is_kept: bool = False
    full_ms: float | None = None
    place: int = 0
    version: tuple[int, int] = ONLY_ONE

    def finish(self, turn: Turn) -> None:
        """Take over the finished turn's values."""
        self.is_kept = True
        self.text, self.finish_reason, self.was_edited = turn.text, turn.finish_reason, turn.was_edited
        self.parts, self.metrics = turn.parts or self.parts, turn.metrics
        self.cells = self.cells if turn.cells is None else turn.cells
        self.n_tokens = turn.metrics.generated_tokens or len(turn.tokens)
        self.state = "stopped" if turn.finish_reason == "cancelled" else "done"

    @property
    def context_used(self) -> int:
        """Tokens of the context that the prompt and what is written so far fill; 0 until the prompt is read."""
        return max(self.metrics.context_used, self.metrics.prompt_tokens + self.n_tokens) if self.metrics is not None else 0

    @property
    def full_prefill(self) -> tuple[float, bool] | None:
        """TTFT of a full prefill in ms, and whether it was measured; None while nothing is known."""
        if self.full_ms is not None:
            return self.full_ms, True
        if self.metrics is not None and self.metrics.full_ttft_estimate_ms > 0:
            return self.metrics.full_ttft_estimate_ms, False
        return None

    @property
    def saved_ms(self) -> float:
        """Time to first token that relaying saved beyond an exact prefix, as estimated; 0 where nothing was relayed.

        Where a full prefill was measured, the estimate is set right by it.
        """
        metrics = self.metrics
        if metrics is None or not metrics.saved_ms:
            return 0.0
        return metrics.prefix_ttft_estimate_ms * self._correction - metrics.ttft_ms

    @property
    def saved_error_ms(self) -> float:
        """How far `saved_ms` may be off."""
        return (
            self.metrics.prefix_error * self.metrics.prefix_ttft_estimate_ms * self._correction if self.metrics and self.saved_ms else 0.0
        )

    @property
    def _correction(self) -> float:
        estimate = self.metrics.full_ttft_estimate_ms if self.metrics is not None else 0.0
        return self.full_ms / estimate if self.full_ms is not None and estimate else 1.0


@dataclass(slots=True, eq=False)
class RoundRecord:
    """One message of the user and the turns that answer it."""

    task: str
    number: int
    files: tuple[str, ...] = ()  # names of what was attached
    turns: list[TurnRecord] = field(default_factory=list)
    version: tuple[int, int] = ONLY_ONE

    @property
    def names(self) -> list[str]:
        """Who has answered, in the order of the answers."""
        return [turn.agent for turn in self.turns if turn.is_kept]


class Conversation:
    """Rounds in order. The chain holds the conversation; this is a copy with what the screen needs besides."""

    def __init__(self) -> None:
        self.rounds: list[RoundRecord] = []

    def turns(self) -> Iterator[TurnRecord]:
        return (turn for each in self.rounds for turn in each.turns)

    @property
    def last(self) -> TurnRecord | None:
        return next((each.turns[-1] for each in reversed(self.rounds) if each.turns), None)

    def find(self, round: int, index: int) -> TurnRecord | None:
        """The record of the agent at `index` in that round. A turn that is retried gets a new record, which takes the old one's place."""
        return next((turn for turn in self.turns() if (turn.round, turn.index) == (round, index)), None)

    def start_round(self, task: str, number: int, files: tuple[str, ...] = ()) -> RoundRecord:
        self.rounds.append(RoundRecord(task, number, files))
        return self.rounds[-1]

    def start_turn(self, agent: str, place: int, parts: tuple[PromptPart, ...], at: int | None = None) -> TurnRecord:
        """A new record for the agent at that place of the chain; `at`: its place among the answers, at the end if None."""
        current = self.rounds[-1]
        index = len(current.turns) if at is None else min(at, len(current.turns))
        for later in current.turns[index:]:
            later.index += 1
        record = TurnRecord(agent, index, current.number, "reusing", parts, place=place)
        current.turns.insert(index, record)
        return record

    def mark_versions(self, found: Mapping[tuple[int, int | None], tuple[int, int]]) -> list[RoundRecord | TurnRecord]:
        """Say of each message and answer which of how many versions it is; those of which that has changed."""
        items: list[tuple[RoundRecord | TurnRecord, tuple[int, int | None]]] = []
        for each in self.rounds:
            items += [(each, (each.number, None)), *((turn, (each.number, turn.index)) for turn in each.turns)]
        changed = [(item, found.get(place, ONLY_ONE)) for item, place in items if item.version != found.get(place, ONLY_ONE)]
        for item, version in changed:
            item.version = version
        return [item for item, _ in changed]

    def drop(self, round: int, index: int | None = None) -> list[TurnRecord]:
        """Remove a round and what follows, or its turns from `index` on; the removed records."""
        gone = [turn for turn in self.turns() if turn.round > round or (turn.round == round and (index is None or turn.index >= index))]
        self.rounds = [each for each in self.rounds if each.number < round or (each.number == round and index is not None)]
        self.forget(gone)
        return gone

    def forget(self, gone: list[TurnRecord]) -> None:
        """Remove these records."""
        for each in self.rounds:
            each.turns = [turn for turn in each.turns if turn not in gone]

    def load(self, rounds: Iterable[tuple[str, tuple[str, ...], Iterable[Turn]]]) -> None:
        """Replace everything by rounds of finished turns: message, names of files, answers."""
        self.rounds = []
        for number, (task, files, turns) in enumerate(rounds):
            current = self.start_round(task, number, files)
            for turn in turns:
                record = TurnRecord(one_line(turn.agent), turn.index, number, place=turn.index)
                record.finish(turn)
                current.turns.append(record)

    def saved(self) -> tuple[float, float, int]:
        """Milliseconds that relaying saved in all beyond exact prefixes, how far that may be off, and over how many turns."""
        counted = [turn for turn in self.turns() if turn.saved_ms]
        return sum(turn.saved_ms for turn in counted), sum(turn.saved_error_ms for turn in counted), len(counted)
