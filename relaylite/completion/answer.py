"""What a completion gives while it runs and when it is done. Values only.

A completion yields, in this order:

    Prefilled                 when the prompt is in place
    Piece …, Finished         for each answer, `index` from 0 to n - 1

One that fails or is cancelled raises instead; what was computed until then is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from relaylite.metrics import TurnMetrics


@dataclass(frozen=True, slots=True)
class TakenOver:
    """Prompt tokens `[start, end)` whose rows are those of an earlier request, `source` ("" if that is not known any more).

    `kind`: "prefix" (in place, from the start of the prompt) or "span" (moved, and repaired if the policy repairs).
    """

    start: int
    end: int
    kind: str
    source: str


@dataclass(frozen=True, slots=True)
class Missed:
    """Known text in the prompt, `n_tokens` of it, that was computed again, and why, in words for people.

    `reason` begins with a word for programs: "short", "evicted", "changed", "policy" or "model".
    """

    source: str
    n_tokens: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reuse:
    """What became of the tokens of a prompt. `recomputed`: share of the relayed cells that were computed again, from 0 to 1."""

    taken_over: tuple[TakenOver, ...] = ()
    missed: tuple[Missed, ...] = ()
    recomputed: float = 0.0

    @property
    def prefix_tokens(self) -> int:
        return sum(each.end - each.start for each in self.taken_over if each.kind == "prefix")

    @property
    def relayed_tokens(self) -> int:
        return sum(each.end - each.start for each in self.taken_over if each.kind == "span")


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Natural logarithm of a token's probability before sampling changes it. `top`: the likeliest tokens with theirs, in order."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Prefilled:
    """The prompt is in place: `prompt` are its tokens, `queued_ms` and `prefill_ms` what waiting and computing took."""

    prompt: tuple[int, ...]
    queued_ms: float
    prefill_ms: float
    reuse: Reuse


@dataclass(frozen=True, slots=True)
class Piece:
    """One more token of answer `index`. `text` is whole characters; it is "" while some are held back (`engine.interface.Delta`)."""

    index: int
    text: str
    token: int
    logprob: TokenLogprob | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """Answer `index` has ended. `finish_reason`: "stop" or "length". `tokens`: the ids that can be relayed.

    `metrics.ttft_ms` counts from when the request was submitted, waiting included; `predicted_ms` is what all tokens behind the first took.
    """

    index: int
    text: str
    tokens: tuple[int, ...]
    finish_reason: str
    metrics: TurnMetrics
    reuse: Reuse
    predicted_ms: float = 0.0
    stop: str = ""  # the stop string that ended it, "" for none
    logprobs: tuple[TokenLogprob, ...] = field(default=(), repr=False)


CompletionEvent = Prefilled | Piece | Finished
