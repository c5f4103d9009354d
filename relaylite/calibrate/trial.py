"""`Trial`: parameters that were tried, what they cost and what they lost. Pure functions find the best trial for each fidelity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from relaylite.reuse.policies import FIDELITIES, Fidelity
from relaylite.reuse.profile import RelayParameters

# What a fidelity may lose, as shares of what `naive` loses: mean KL, first-token KL. docs/results.md shows what that costs.
TARGETS: Mapping[Fidelity, tuple[float, float]] = {"fast": (0.50, 0.50), "balanced": (0.30, 0.35), "careful": (0.20, 0.23)}
MARGIN = 0.9  # of the target: what few prompts show holds a little less on others
FIRST_TOKEN_PROMPTS = 30  # prompts with which the first token's loss, one position in each, would count as half as much as the mean's


@dataclass(frozen=True, slots=True)
class Trial:
    """`cost`: median TTFT as a multiple of `naive`'s; `kl_mean_share`, `kl_first_share`: loss as a share of `naive`'s.

    `selected_share`: of the span tokens, the share that was recomputed. `n`: prompts that these figures rest on.
    """

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
        """How much of the fidelity's target is used up; up to 1 is within it."""
        mean, first = TARGETS[fidelity]
        return self._both(self.kl_mean_share / mean, self.kl_first_share / first)

    def _both(self, mean: float, first: float) -> float:
        """The mean of the two; what is known of the first token from few prompts is noise, and counts little."""
        weight = self.n / (self.n + FIRST_TOKEN_PROMPTS)
        return (mean + weight * first) / (1 + weight)


def best_of(trials: Sequence[Trial]) -> dict[Fidelity, Trial]:
    """For each fidelity the cheapest trial within its target, or the one that comes closest if none is.

    `fast` selects less than `balanced`, and `careful` more, wherever such trials exist. All of them start in the same layer, so that two
    vectors a token serve every fidelity. Of the layers that were tried, it is the one with which the fidelities together cost least; a
    missed target counts as cost.
    """
    by_start: dict[int, list[Trial]] = {}
    for trial in trials:
        by_start.setdefault(trial.parameters.l_start, []).append(trial)
    return min(map(_apart, by_start.values()), key=_burden)


def _apart(trials: Sequence[Trial]) -> dict[Fidelity, Trial]:
    """The best for each fidelity: `balanced` first, then what selects less, and what selects more and loses no more."""
    balanced = _best_for("balanced", trials)
    less = [trial for trial in trials if trial.parameters.max_share < balanced.parameters.max_share]
    more = [trial for trial in trials if trial.parameters.max_share > balanced.parameters.max_share]
    surely = [trial for trial in more if trial.loss <= balanced.loss]
    return {
        "fast": _best_for("fast", less or [balanced]),
        "balanced": balanced,
        "careful": _best_for("careful", surely or more or [balanced]),
    }


def not_worse(found: Mapping[Fidelity, Trial], default: Mapping[Fidelity, Trial]) -> dict[Fidelity, Trial]:
    """`found`, with the default's trial wherever that lost less, or does its job in less time. Both were measured on the same prompts.

    All are the default's if the fidelities would no longer select more, one after the other, as they do by themselves.
    """
    mixed = {fidelity: default[fidelity] if _is_beaten(fidelity, trial, default[fidelity]) else trial for fidelity, trial in found.items()}
    return mixed if _is_ascending(mixed) or not _is_ascending(default) else dict(default)


def _is_beaten(fidelity: Fidelity, trial: Trial, default: Trial) -> bool:
    return default.loss < trial.loss or _burden({fidelity: default}) < _burden({fidelity: trial})


def _is_ascending(trials: Mapping[Fidelity, Trial]) -> bool:
    shares = [trials[fidelity].parameters.max_share for fidelity in FIDELITIES]
    return all(a < b for a, b in pairwise(shares))


def _burden(best: Mapping[Fidelity, Trial]) -> float:
    """Cost of these fidelities; a target that is missed weighs more the further it is missed."""
    return sum(trial.cost * max(1.0, trial.strain(fidelity) / MARGIN) ** 2 for fidelity, trial in best.items())


def _best_for(fidelity: Fidelity, trials: Sequence[Trial]) -> Trial:
    within = [trial for trial in trials if trial.strain(fidelity) <= MARGIN]
    return min(within, key=lambda t: (t.cost, t.loss)) if within else min(trials, key=lambda t: (t.strain(fidelity), t.cost))


def front(trials: Sequence[Trial]) -> list[Trial]:
    """Those that no other one beats in both cost and loss, the cheapest first."""
    best: list[Trial] = []
    for trial in sorted(trials, key=lambda t: (t.cost, t.loss)):
        if not best or trial.loss < best[-1].loss:
            best.append(trial)
    return best


def promising(trials: Sequence[Trial], n: int) -> list[Trial]:
    """The `n` that give most for their cost: the smallest product of loss and cost."""
    return sorted(trials, key=lambda t: t.loss * t.cost)[:n]
