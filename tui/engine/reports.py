"""What the engine's thread tells the app besides the chain's own events. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from relaylite.chain.agents import Agent
from relaylite.engine.interface import Memory, ModelInfo
from relaylite.events import Event, TextDelta, Turn
from relaylite.reuse.policies import Policy
from relaylite.tui.engine.opener import Progress

if TYPE_CHECKING:
    from relaylite.chain.result import Comparison

Place = tuple[int, int | None]  # a round, and an answer in it; None: its message

STOPPED = "Stopped."  # the reason of what the user ended


@dataclass(frozen=True, slots=True)
class Opening:
    model: str
    progress: Progress


@dataclass(frozen=True, slots=True)
class Opened:
    """The model is ready. Its chain holds the conversation that was shown before, if there was one."""

    model: str
    info: ModelInfo


@dataclass(frozen=True, slots=True)
class OpenFailed:
    """`kept` is the model that is still open, if one is."""

    model: str
    reason: str
    kept: ModelInfo | None


@dataclass(frozen=True, slots=True)
class Attached:
    """Names of the files that go with the message which is about to be answered."""

    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run came to its end; "paused" waits for `resume`. `reason` is one line for "failed"."""

    outcome: Literal["done", "paused", "stopped", "failed"]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MemoryUsed:
    memory: Memory


@dataclass(frozen=True, slots=True)
class Dropped:
    """Answers of `round` from `index` on (None: the whole round) are gone; `task` is the round's message."""

    round: int
    index: int | None
    task: str


@dataclass(frozen=True, slots=True)
class Edited:
    round: int
    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Measured:
    """A full prefill of that turn's prompt took `full_ms`."""

    round: int
    index: int
    full_ms: float


@dataclass(frozen=True, slots=True)
class Comparing:
    """An answer is being written under another policy: so many tokens by now."""

    n_tokens: int


@dataclass(frozen=True, slots=True)
class Compared:
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class LoadedRound:
    """A message, the names of the files that went with it, and the answers."""

    task: str
    files: tuple[str, ...]
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Loaded:
    """The conversation was replaced: loaded from `path`, gone on with, or (None and no rounds) begun anew; or it goes on in another branch.

    `place`: what the user looks at, a round and an answer or its message; None: the end.
    """

    path: Path | None
    rounds: tuple[LoadedRound, ...]
    agents: tuple[Agent, ...]
    policy: Policy
    place: Place | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)  # as `Chain.chosen`


@dataclass(frozen=True, slots=True)
class Versions:
    """Where there are several versions of a message or an answer: the number of the one that is shown, from 0, and how many there are."""

    found: Mapping[Place, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class InSession:
    """The session that keeps the conversation; "" while it is not kept. `is_read_only`: another relaylite has it open."""

    name: str = ""
    is_read_only: bool = False


@dataclass(frozen=True, slots=True)
class Saved:
    path: Path


@dataclass(frozen=True, slots=True)
class Failed:
    """A job other than a run could not be carried out; nothing changed."""

    reason: str


Change = Dropped | Edited | Measured | Loaded | Versions | InSession
Report = Event | Attached | Opening | Opened | OpenFailed | RunEnded | MemoryUsed | Change | Comparing | Compared | Saved | Failed


def joined(reports: Iterable[Report]) -> Iterator[Report]:
    """The same reports, but neighbouring pieces of one agent's text are one, and of neighbouring steps of opening only the last is left."""
    pending: Report | None = None
    for report in reports:
        match pending, report:
            case TextDelta() as before, TextDelta() as after if before.agent == after.agent:
                pending = TextDelta(after.agent, before.text + after.text, after.n_tokens)
                continue
            case Comparing(), Comparing():
                pass
            case Opening() as before, Opening() as after if before.model == after.model:
                pass
            case None, _:
                pass
            case before, _:
                yield before
        pending = report
    if pending is not None:
        yield pending
