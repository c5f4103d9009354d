"""Which of the candidates that were measured becomes which mode. Pure functions on measured values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from relaylite.reuse.policies import FIDELITIES, Fidelity
from relaylite.reuse.profile import RelayParameters

# What a mode may lose, as shares of what `naive` loses: mean KL, first-token KL. docs/results.md shows what that costs.
TARGETS: Mapping[Fidelity, tuple[float, float]] = {"fast": (0.50, 0.50), "balanced": (0.30, 0.35), "careful": (0.20, 0.23)}
MARGIN = 0.9  # of the target: what few prompts show holds a little less on others
FIRST_TOKEN_PROMPTS = 30  # prompts with which the first token's loss, one position in each, would count as half as much as the mean's


@dataclass(frozen=True, slots=True)
class Candidate:
    """`cost`: median TTFT as a multiple of `naive`'s; `kl_mean_share`, `kl_first_share`: loss as a share of `naive`'s."""

    parameters: RelayParameters
    cost: float
    kl_mean_share: float
    kl_first_share: float
    selected_share: float
    n: int

    @property
    def loss(self) -> float:
        """Both shares in one number."""
        return self._both(self.kl_mean_share, self.kl_first_share)

    def strain(self, fidelity: Fidelity) -> float:
        """How much of the mode's target is used up; up to 1 is within it."""
        mean, first = TARGETS[fidelity]
        return self._both(self.kl_mean_share / mean, self.kl_first_share / first)

    def _both(self, mean: float, first: float) -> float:
        """The mean of the two; what is known of the first token from few prompts is noise, and counts little."""
        weight = self.n / (self.n + FIRST_TOKEN_PROMPTS)
        return (mean + weight * first) / (1 + weight)


def choose_modes(candidates: Sequence[Candidate]) -> dict[Fidelity, Candidate]:
    """For each mode the cheapest candidate within its target, or the one that comes closest if none is; all of them with the same captured
    states, so that two vectors a token serve every mode: those by which the modes together cost least for what they keep."""
    by_captures: dict[frozenset[tuple[str, str]], list[Candidate]] = {}
    for candidate in candidates:
        by_captures.setdefault(frozenset(candidate.parameters.captures.items()), []).append(candidate)
    choices = [{fidelity: _choose(alike, fidelity) for fidelity in FIDELITIES} for alike in by_captures.values()]
    return min(choices, key=_burden)


def _burden(modes: Mapping[Fidelity, Candidate]) -> float:
    """Cost of the modes; a target that is missed weighs more the further it is missed."""
    return sum(candidate.cost * max(1.0, candidate.strain(fidelity) / MARGIN) ** 2 for fidelity, candidate in modes.items())


def _choose(candidates: Sequence[Candidate], fidelity: Fidelity) -> Candidate:
    within = [candidate for candidate in candidates if candidate.strain(fidelity) <= MARGIN]
    return min(within, key=lambda c: (c.cost, c.loss)) if within else min(candidates, key=lambda c: (c.strain(fidelity), c.cost))


def front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that no other one beats in both cost and loss, the cheapest first."""
    best: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: (c.cost, c.loss)):
        if not best or candidate.loss < best[-1].loss:
            best.append(candidate)
    return best


def promising(candidates: Sequence[Candidate], n: int) -> list[Candidate]:
    """The `n` that give most for their cost: the smallest product of loss and cost."""
    return sorted(candidates, key=lambda c: c.loss * c.cost)[:n]
