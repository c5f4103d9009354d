"""`Overview`: what requests there are and were, for people and for metrics. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["queued", "prefill", "writing", "finished", "cancelled", "failed"]


@dataclass(frozen=True, slots=True)
class RequestState:
    """One request. Figures are 0 until they are known. `asked_at`: seconds since the epoch. `text`: the end of what was written."""

    id: str
    state: State
    asked_at: float
    prompt_tokens: int = 0
    prefix_tokens: int = 0
    relayed_tokens: int = 0
    generated_tokens: int = 0
    queued_ms: float = 0.0
    ttft_ms: float = 0.0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all requests since the model was opened. `computed_tokens`: prompt tokens that were neither prefix nor relayed."""

    requests: int = 0
    cancelled: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    prefix_tokens: int = 0
    relayed_tokens: int = 0
    computed_tokens: int = 0
    generated_tokens: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Overview:
    """`requests`: those that wait or run, in the order they came, and the last ones that ended. `n_parallel`: how many may run in turns."""

    totals: Totals
    requests: tuple[RequestState, ...]
    n_parallel: int

    @property
    def n_queued(self) -> int:
        return sum(request.state == "queued" for request in self.requests)

    @property
    def n_running(self) -> int:
        return sum(request.state in ("prefill", "writing") for request in self.requests)
