"""`Sample`: what one method cost on one prompt, and what it kept of a full prefill."""

from __future__ import annotations

from dataclasses import dataclass, replace

from relaylite.bench.statistics import divergence
from relaylite.engine.native import F32
from relaylite.metrics import TtftParts


@dataclass(frozen=True, slots=True)
class Sample:
    """One method on one prompt; counts are tokens of the prompt.

    `group` names prompts that are alike: the agent that reads, or the length asked for. `selected_tokens`: span tokens that were
    recomputed in the layers that repair, not only in those that look for deviation. `kl_first`, `kl_mean`: loss against a full prefill
    in nats, of the first token's distribution and over all tokens that were followed. `top1`: the share of these whose likeliest token
    is the same. `is_right`: None where nobody judged.
    """

    method: str
    prompt: int  # number of the prompt, from 0
    group: str
    ttft: TtftParts
    prompt_tokens: int
    prefix_tokens: int
    span_tokens: int
    selected_tokens: int
    reuse_ratio: float
    prompt_reuse: float
    kl_first: float = 0.0
    kl_mean: float = 0.0
    top1: float = 1.0
    is_right: bool | None = None

    def compared(self, reference: F32, seen: F32) -> Sample:
        """With its loss: logits of the full prefill, and of this method, `[n, n_vocab]` each for the same tokens."""
        loss = divergence(reference, seen)
        same = reference.argmax(axis=1) == seen.argmax(axis=1)
        return replace(self, kl_first=float(loss[0]), kl_mean=float(loss.mean()), top1=float(same.mean()))
