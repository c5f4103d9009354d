"""Events of a running chain. The CLI prints them, the terminal UI posts them.

A run yields, in this order:

    ChainStarted
    for each agent:
        TurnStarted
        Phase("render"), then of "place" and "repair" those that happen, Phase("suffix"), Phase("write")
        PrefillDone     when the first token is sampled, or the answer ended without one
        TextDelta …     as text comes
        TurnFinished
    ChainFinished

Notice may come anywhere behind ChainStarted. A run that fails or is cancelled raises from the iterator and yields no ChainFinished; one
that is cancelled while an agent writes still yields TurnFinished for what was written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from relaylite.metrics import CellMap, TurnMetrics

# The stages of the time to first token (`metrics.STAGES`), in order. Their fields in `metrics.TtftParts` have the names that `--json`
# has had from the start: `rectify` for "repair", `sample` for the first token of "write".
PhaseName = Literal["render", "place", "repair", "suffix", "write"]


@dataclass(frozen=True, slots=True)
class PromptPart:
    """Prompt tokens in a row with one origin, for showing and marking.

    `kind`: "template" (chat-template text), "system", "user" (what the user typed), "file", "glue" (text between answers) or
    "answer" (an agent's text, relayed by its token ids); `source`: the agent for "answer" and "system", the path for "file", else "".
    A part of an answer is `whole[offset : offset + len(tokens)]`; `whole` is empty for anything else.
    """

    kind: Literal["template", "system", "user", "file", "glue", "answer"]
    source: str
    tokens: tuple[int, ...]
    text: str
    whole: tuple[int, ...] = field(default=(), repr=False)
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """One agent's answer and what it cost.

    `tokens`: the sampled ids as they can be relayed, without an end-of-generation token. `finish_reason`: "stop" (also
    if the answer only repeated itself and was ended), "length" (max tokens, or the context was full) or "cancelled". `parts`: the prompt;
    empty in a conversation that was loaded, and so is `cells`.
    """

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
    """`agents`: their names in chain order. `policy`: the one that runs, by its label. `round`: number of the message, from 0."""

    agents: tuple[str, ...]
    policy: str
    round: int


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """An agent is about to answer. `index`: its place in the chain, from 0. `parts`: its whole prompt."""

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
    """More text of the answer, in whole characters. `n_tokens`: tokens generated so far in this turn."""

    agent: str
    text: str
    n_tokens: int


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The answer has ended. Its rows are kept, unless a Notice said why not."""

    turn: Turn


@dataclass(frozen=True, slots=True)
class Notice:
    """One line that the user should read once: relaying is off and why, rounds are no longer read, …

    `is_minor`: nothing went wrong; where little is to be said, this is left out.
    """

    text: str
    is_minor: bool = False


@dataclass(frozen=True, slots=True)
class ChainFinished:
    """`turns`: all answers of the round, in chain order. `wall_ms`: from the first event asked for, with the reader's own time."""

    turns: tuple[Turn, ...]
    wall_ms: float
    peak_rss_mb: float


Event = ChainStarted | TurnStarted | Phase | PrefillDone | TextDelta | TurnFinished | Notice | ChainFinished
