"""The figures of an answer: llama-server's `timings`, OpenAI's `usage`, and the object `relay`, which says what was taken over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from relaylite.completion.answer import Finished, Prefilled, Reuse
from relaylite.reuse.policies import Policy
from relaylite.serve.exchange import Outcome


def cached_tokens(reuse: Reuse) -> int:
    return reuse.prefix_tokens + reuse.relayed_tokens


def usage(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Summed over prompts and answers; a prompt counts once, however many answers it has."""
    outcomes = list(outcomes)
    prompt = sum(len(outcome.prefilled.prompt) for outcome in outcomes)
    written = sum(answer.metrics.generated_tokens for outcome in outcomes for answer in outcome.answers)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
        "prompt_tokens_details": {"cached_tokens": sum(cached_tokens(outcome.prefilled.reuse) for outcome in outcomes)},
    }


def timings(prefilled: Prefilled, answers: Sequence[Finished]) -> dict[str, float]:
    """`cache_n` and `prompt_n` together are the prompt: tokens that were taken over, and tokens that were computed."""
    cache_n = cached_tokens(prefilled.reuse)
    return {
        "cache_n": cache_n,
        **_speed("prompt", len(prefilled.prompt) - cache_n, prefilled.prefill_ms),
        **_speed("predicted", sum(each.metrics.generated_tokens for each in answers), sum(each.predicted_ms for each in answers)),
    }


def relay(policy: Policy, prefilled: Prefilled) -> dict[str, Any]:
    reuse = prefilled.reuse
    return {
        "policy": policy.label,
        "prompt_tokens": len(prefilled.prompt),
        "prefix": reuse.prefix_tokens,
        "relayed": reuse.relayed_tokens,
        "computed": len(prefilled.prompt) - cached_tokens(reuse),
        "recomputed_share": round(reuse.recomputed, 4),
        "queued_ms": round(prefilled.queued_ms, 3),
        "spans": [{"start": each.start, "end": each.end, "kind": each.kind, "source": each.source} for each in reuse.taken_over],
        "missed": [{"source": each.source, "n_tokens": each.n_tokens, "reason": each.reason} for each in reuse.missed],
    }


def figures(policy: Policy, outcome: Outcome) -> dict[str, Any]:
    """What stands beside the answer in every dialect."""
    return {"timings": timings(outcome.prefilled, outcome.answers), "relay": relay(policy, outcome.prefilled)}


def _speed(name: str, n: int, ms: float) -> dict[str, float]:
    return {
        f"{name}_n": n,
        f"{name}_ms": round(ms, 3),
        f"{name}_per_token_ms": round(ms / n, 3) if n else 0.0,
        f"{name}_per_second": round(n / ms * 1e3, 3) if ms > 0 else 0.0,
    }
