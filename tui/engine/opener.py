"""What the app asks of relaylite, as protocols: `relaylite.api.Relay` fulfils them, and so does a scripted relay in tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from relaylite.chain.agents import Agent
from relaylite.chain.attachments import Attachment
from relaylite.engine.interface import Memory, ModelInfo
from relaylite.events import Event, Turn
from relaylite.reuse.policies import Policy


class RoundLike(Protocol):
    @property
    def task(self) -> str: ...
    @property
    def turns(self) -> Sequence[Turn]: ...
    @property
    def files(self) -> Sequence[Attachment]: ...


class ChainLike(Protocol):
    """A conversation with a chain of agents; docs/architecture.md has the contract."""

    agents: Sequence[Agent]
    policy: Policy

    @property
    def rounds(self) -> Sequence[RoundLike]: ...
    def stream(self, task: str, *, files: Iterable[Attachment] = (), stop_after: int | None = None) -> Iterator[Event]: ...
    def resume(self, stop_after: int | None = None) -> Iterator[Event]: ...
    def cancel(self) -> None: ...
    def retry(self, index: int | None = None) -> str: ...
    def edit(self, round: int, index: int, text: str) -> None: ...
    def measure_full(self, round: int, index: int) -> float: ...
    def to_dict(self) -> dict[str, Any]: ...


class RelayLike(Protocol):
    """A loaded model."""

    @property
    def info(self) -> ModelInfo: ...
    def chain(self, agents: Sequence[Agent]) -> ChainLike: ...
    def chain_from_dict(self, data: Mapping[str, Any]) -> ChainLike: ...
    def piece(self, token: int) -> bytes: ...
    def memory(self) -> Memory: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Progress:
    """How far opening a model is: 0 to 1, or None where the size is unknown."""

    stage: str
    fraction: float | None


OnProgress = Callable[[Progress], None]


class Opener(Protocol):
    """Finds and opens models. Called in the engine's thread; what `on_progress` raises ends the call."""

    def locate(self, model: str, on_progress: OnProgress) -> str:
        """The path of the file that `model` names, fetched if need be."""
        ...

    def open(self, path: str, on_progress: OnProgress) -> RelayLike: ...
