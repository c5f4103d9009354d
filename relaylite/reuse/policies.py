"""Policies: how much of what is known is taken over, and how it is repaired. Values only; the planner reads them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from relaylite.errors import UsageError, did_you_mean

Fidelity = Literal["fast", "balanced", "careful"]
FIDELITIES: tuple[Fidelity, ...] = ("fast", "balanced", "careful")


@dataclass(frozen=True, slots=True)
class Policy:
    """What a plan may reuse.

    `use_prefix`: the rows that the prompt begins with, in place. `use_spans`: rows from elsewhere, with K rotated to their new positions;
    only spans of at least `min_span` tokens. `repairs`: recompute the span cells that the new text before them changes, as the model's
    profile says for this `fidelity`.
    """

    name: str
    use_prefix: bool
    use_spans: bool
    repairs: bool = False
    fidelity: Fidelity = "balanced"
    min_span: int = 32

    @property
    def label(self) -> str:
        """The name that users type, such as `relay:fast` or `naive`."""
        return f"{self.name}:{self.fidelity}" if self.repairs and self.fidelity != "balanced" else self.name

    @property
    def is_exact(self) -> bool:
        """Whether every row equals that of a full prefill up to rounding."""
        return not self.use_spans


FULL = Policy("full", use_prefix=False, use_spans=False)
PREFIX = Policy("prefix", use_prefix=True, use_spans=False)
NAIVE = Policy("naive", use_prefix=True, use_spans=True)
RELAY = Policy("relay", use_prefix=True, use_spans=True, repairs=True)

POLICIES: dict[str, Policy] = {p.name: p for p in (FULL, PREFIX, NAIVE, RELAY)}
# The labels of all policies, from the one that takes over nothing to those that repair, the fastest first.
LABELS = tuple(p.label for p in (FULL, PREFIX, NAIVE, *(replace(RELAY, fidelity=fidelity) for fidelity in FIDELITIES)))


def parse_policy(text: str, fidelity: Fidelity | None = None) -> Policy:
    """The policy named `text`, such as `naive`, `relay` or `relay:careful`, in any case. `fidelity` applies if `text` names none.

    Raises UsageError with the closest name, or all of them, if there is no such policy.
    """
    name, _, suffix = text.lower().partition(":")
    policy = POLICIES.get(name)
    if policy is None or (suffix and (not policy.repairs or suffix not in FIDELITIES)):
        known = [*POLICIES, *(f"relay:{f}" for f in FIDELITIES)]
        wanted = f"relay:{name}" if name in FIDELITIES else text
        raise UsageError(f"unknown policy {text!r}; {did_you_mean(wanted, known, 'known: ' + ', '.join(known))}")
    chosen = suffix or fidelity
    if not policy.repairs or not chosen or chosen == policy.fidelity:
        return policy
    if chosen not in FIDELITIES:
        raise UsageError(f"unknown fidelity {chosen!r}; known: {', '.join(FIDELITIES)}")
    return replace(policy, fidelity=chosen)
