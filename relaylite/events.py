"""Events of a running chain, in the order in which they happen. The CLI prints them, the terminal UI posts them.

One run yields: ChainStarted, then per agent TurnStarted, Phase…, PrefillDone, TextDelta…, TurnFinished, then ChainFinished.
Notice may come anywhere. A failing or cancelled run raises from the iterator after the last TurnFinished.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from relaylite.metrics import CellMap, TurnMetrics

PhaseName = Literal["render", "place", "repair", "suffix", "write"]


@dataclass(frozen=True, slots=True)
class PromptPart:
    """A run of prompt tokens with one origin, for showing and marking.

    `kind`: "template" (chat-template text), "system", "user" (what the user typed), "file", "glue" (text between answers) or
    "answer" (an agent's text, relayed by its token ids); `source`: the agent for "answer" and "system", the path for "file", else "".
    """

    kind: Literal["template", "system", "user", "file", "glue", "answer"]
    source: str
    tokens: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One agent's answer and what it cost. `tokens` are the sampled ids as they can be relayed (no end-of-generation token)."""

    agent: str
    index: int  # place in the chain, from 0
    round: int  # user message that it answers, from 0
    text: str
    tokens: tuple[int, ...]
    finish_reason: str
    metrics: TurnMetrics
    parts: tuple[PromptPart, ...] = ()
    cells: CellMap | None = None
    was_edited: bool = False


@dataclass(frozen=True, slots=True)
class ChainStarted:
    agents: tuple[str, ...]
    policy: str
    round: int


@dataclass(frozen=True, slots=True)
class TurnStarted:
    agent: str
    index: int
    parts: tuple[PromptPart, ...]


@dataclass(frozen=True, slots=True)
class Phase:
    """The running turn entered this stage."""

    name: PhaseName


@dataclass(frozen=True, slots=True)
class PrefillDone:
    """The first token is sampled; `metrics` lacks the generation figures."""

    agent: str
    metrics: TurnMetrics
    cells: CellMap


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Whole UTF-8 characters."""

    agent: str
    text: str
    n_tokens: int  # tokens generated so far in this turn


@dataclass(frozen=True, slots=True)
class TurnFinished:
    turn: Turn


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the user should know once: relaying is off and why, old turns were dropped, …

    `is_minor`: nothing went wrong; where little is to be said, this is left out.
    """

    text: str
    is_minor: bool = False


@dataclass(frozen=True, slots=True)
class ChainFinished:
    turns: tuple[Turn, ...]
    wall_ms: float
    peak_rss_mb: float


Event = ChainStarted | TurnStarted | Phase | PrefillDone | TextDelta | TurnFinished | Notice | ChainFinished
