"""`Method`: one way to take a prompt's rows over, by the name that `--policies` gives it: our policies, and baselines of the literature.

A baseline is a policy with other parameters, or with a selection that looks at nothing but the plan. A policy that repairs can have some
of the profile's parameters changed, as in `relay+lead=0+max_share=0.1`. Any method can take its rows from files of a codec that the store
has: `relay@q6-q4`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from relaylite.engine.sweep import ForcedSelection
from relaylite.errors import UsageError
from relaylite.reuse.plan import Kind, Plan
from relaylite.reuse.policies import FIDELITIES, FULL, LABELS, NAIVE, RELAY, Policy, parse_policy
from relaylite.reuse.profile import Profile, RelayParameters, check_changes
from relaylite.reuse.rows import Tokens
from relaylite.store.codec import CODECS, PLAIN, Codec

BASELINES = {
    "epic:K": "the first K tokens of each relayed text are recomputed in all layers (EPIC)",
    "cacheblend:SHARE": "deviation at layer 1 selects SHARE of the relayed tokens for all layers (CacheBlend)",
    "random:SHARE": "as many tokens, by chance",
    "everything": "all relayed tokens",
    "batches:K": "nothing is taken over, and llama.cpp computes K tokens at once: what its rounding alone changes",
}
ALL_LAYERS = 1 << 20  # as `l_end`: to the last layer, however many the model has


@dataclass(frozen=True, slots=True)
class Method:
    """`parameters` in place of the profile's, or `changes` of them, or `forced` in place of any; at most one of these.

    An `l_end` of `parameters` beyond the model's layers stands for its last one. `n_batch`: tokens that llama.cpp computes at once.
    `codec`: rows come from files of this codec.
    """

    label: str
    policy: Policy
    parameters: RelayParameters | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    forced: ForcedSelection | None = None
    n_batch: int | None = None
    codec: Codec | None = None

    def profile(self, measured: Profile, n_layer: int) -> Profile:
        """The profile to run with: `measured`, the model's own, or one that holds this method's parameters for every fidelity.

        Raises UsageError if the changes do not fit the parameters of `measured`, or a model of `n_layer` layers.
        """
        if self.parameters is None and not self.changes:
            return measured
        try:
            profile = replace(measured, fidelities=dict.fromkeys(FIDELITIES, self._parameters(measured, n_layer)))
            profile.check_fits(n_layer)
        except UsageError as error:
            own = measured.fidelities[self.policy.fidelity]
            layers = f"l_start {own.l_start}, l_det {own.l_det}, l_end {own.l_end}, detector {own.detector}"
            raise UsageError(f"{self.label!r} does not fit this model's profile ({layers}): {error}") from error
        return profile

    def _parameters(self, measured: Profile, n_layer: int) -> RelayParameters:
        if self.parameters is None:
            return replace(measured.fidelities[self.policy.fidelity], **self.changes)
        return replace(self.parameters, l_end=min(self.parameters.l_end, n_layer))


AGAIN = Method("full again", FULL)  # what differs between this and `full` is noise


def profiles_of(methods: Sequence[Method], measured: Profile, n_layer: int) -> dict[str, Profile]:
    """The profile that each of `methods` runs with, by its label. Raises UsageError as `Method.profile` does."""
    return {method.label: method.profile(measured, n_layer) for method in methods}


def captures_of(profiles: Iterable[Profile]) -> dict[str, str]:
    """States that rows must carry for all of `profiles`: name → graph node."""
    return {name: node for profile in profiles for name, node in profile.captures.items()}


def parse_methods(text: str) -> list[Method]:
    """The methods of a list with commas, each once; `full` and `naive` first, since the others are compared with them, `AGAIN` last.

    Raises UsageError for an unknown one, with the known ones.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    methods = [Method(FULL.label, FULL), Method(NAIVE.label, NAIVE), *map(parse_method, names), AGAIN]
    return list({method.label: method for method in methods}.values())


def parse_method(name: str) -> Method:
    """One method by its name; behind `@` the codec of the files that its rows come from.

    Says what is wrong whatever the model; whether changed parameters fit one, `Method.profile` says.
    """
    of_memory, has_codec, codec = name.partition("@")
    if has_codec and codec not in CODECS:
        raise UsageError(f"unknown codec of stored rows in {name!r}; known: {', '.join(CODECS)}")
    method = _parse_plain(of_memory)
    if has_codec and method.policy.is_exact and CODECS[codec] is not PLAIN:
        raise UsageError(f"{method.label} takes over exact rows and no others, so none of {codec}; measure relay@{codec}")
    return replace(method, label=f"{method.label}@{codec}", codec=CODECS[codec]) if has_codec else method


def _parse_plain(name: str) -> Method:
    policy_name, *changes = name.split("+")
    if changes:
        return _with_changes(_parse_plain(policy_name), changes)
    kind, _, value = name.partition(":")
    if name == "everything":
        return Method(name, NAIVE, forced=lambda plan: plan.positions(Kind.SPAN))
    if kind == "epic":
        n_first = int(_number(name, value, 1, 1 << 20))
        return Method(name, NAIVE, forced=lambda plan: first_tokens(plan, n_first))
    if kind == "batches":
        return Method(name, FULL, n_batch=int(_number(name, value, 1, 1 << 20)))
    if kind == "random":
        share = _number(name, value, 0, 1)
        return Method(name, NAIVE, forced=lambda plan: random_tokens(plan, share))
    if kind == "cacheblend":
        share = _number(name, value, 0, 1)
        return Method(name, RELAY, RelayParameters(0, 1, ALL_LAYERS, "value", tau=0.0, max_share=share, lead=0.0, thinning=0.0))
    try:
        policy = parse_policy(name)
    except UsageError as error:
        raise UsageError(f"{error}; baselines: {', '.join(BASELINES)}") from error
    return Method(policy.label, policy)


def _with_changes(method: Method, changes: Sequence[str]) -> Method:
    """`method` with parameters changed as `NAME=VALUE` say."""
    label = "+".join([method.label, *changes])
    if not method.policy.repairs or method.parameters is not None:
        known = ", ".join(policy for policy in LABELS if parse_policy(policy).repairs)
        raise UsageError(f"{label!r}: only {known} have parameters to change")
    values = {name: _value(text) for name, _, text in (change.partition("=") for change in changes)}
    check_changes(values)
    return replace(method, label=label, changes=values)


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def first_tokens(plan: Plan, n: int) -> Tokens:
    """Positions of the first `n` tokens of each span."""
    return _joined([np.arange(span.start, min(span.start + n, span.end), dtype=np.int32) for span in plan.of(Kind.SPAN)])


def random_tokens(plan: Plan, share: float) -> Tokens:
    """Positions of `share` of the span tokens, the same ones for the same prompt."""
    spans = plan.positions(Kind.SPAN)
    selected = np.random.default_rng(len(plan.tokens)).choice(len(spans), round(share * len(spans)), replace=False)
    return spans[np.sort(selected)]


def _joined(ranges: Sequence[Tokens]) -> Tokens:
    return np.concatenate(ranges) if ranges else np.empty(0, np.int32)


def _number(name: str, value: str, low: float, high: float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = high + 1
    if not low <= number <= high:
        raise UsageError(f"{name!r} needs a number from {low:g} to {high:g}, as in {name.partition(':')[0]}:{'16' if high > 1 else '0.15'}")
    return number
