"""Why weighting a token's deviation by what the suffix pays attention to does not select better.

    python benchmarks/suffix_attention.py TASKS [--model FILE] [--n 8] [--layer 3] [--share 0.13] [--threads N] [--json FILE]

Chains plan → solve from TASKS (a task file of `relaylite bench`). Of each token that the solver takes over: `deviation`, what the
policy measures at its layer of detection; in every layer `change`, the norm of the difference of its V row, moved, from that of a full
prefill, and `attention`, the share of the suffix's attention that it gets in a full prefill. Change times attention, summed over the
layers, is what the suffix reads wrong. Reported for each score: what the tokens that it chooses hold of that; how much is read wrong
still, of all tokens, when those are recomputed from their ids, and how much of their own change is left; and what is left of the loss (KL
of the first token, and of 32 forced ones, summed over the prompts).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
from opened import opened, parser_of, prefilled

from relaylite.bench.chains import ChainOptions, Upstream
from relaylite.bench.statistics import divergence
from relaylite.bench.tasks import read_tasks
from relaylite.chain.agents import load_agents
from relaylite.engine.engine import Engine
from relaylite.engine.sweep import ForcedSelection
from relaylite.metrics import CellMap
from relaylite.reuse import row_numbers
from relaylite.reuse.kv_types import F16
from relaylite.reuse.plan import Kind
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import FULL, NAIVE, RELAY, Policy
from relaylite.reuse.rows import Rows, Tokens
from relaylite.sampling import Sampling
from relaylite.store import Store

F64 = npt.NDArray[np.float64]
N_FORCED = 32


def changes_of(moved: Rows, computed: Rows, positions: Tokens) -> F64:
    """`[n_layer, n]`: the norm of V's difference."""
    values = [[row_numbers.values(rows.v(il)[positions], F16) for rows in (moved, computed)] for il in range(moved.layout.n_layer)]
    return np.array([np.linalg.norm(a.astype(np.float64) - b, axis=1) for a, b in values])


def attention_of(engine: Engine, suffix: Tokens, tokens: Tokens) -> F64:
    """`[n_layer, prompt tokens]`: the share of the suffix's attention that each position gets in each layer of the live context."""
    cache = engine._sequence.cache
    assert cache is not None
    of_layers = []
    for il in range(engine.info.n_layer):
        mass = cache.slice((0, il), suffix, tokens=tokens[suffix], write_end=il + 1, n_probe=len(suffix), want=("mass",)).mass
        assert mass is not None
        of_layers.append(mass / mass.sum())
    return np.array(of_layers, np.float64)


class Prompt:
    """One prompt in a full prefill, and what a plan that takes spans over makes of it."""

    def __init__(self, engine: Engine, tokens: Tokens, store: Store) -> None:
        self._engine, self._tokens, self._store = engine, tokens, store
        relayed = make_plan(tokens, store, RELAY)
        spans = relayed.positions(Kind.SPAN)
        deviation = self._prefilled(RELAY).deviation[spans]
        self.spans = spans[~np.isnan(deviation)]
        self.deviation = deviation[~np.isnan(deviation)].astype(np.float64)
        self._prefilled(FULL)
        self._rows = engine.harvest("")
        self._first = engine.logits().copy()
        self._forced = [delta.token for delta in engine.generate(Sampling(max_tokens=N_FORCED))]
        self._prefilled(FULL)
        self._expected = engine.force(self._forced)
        self._prefilled(FULL)
        self.attention = attention_of(engine, np.arange(spans[-1] + 1, len(tokens), dtype=np.int32), tokens)[:, self.spans]

    def repaired(self, chosen: Tokens) -> tuple[F64, float, float]:
        """With these positions recomputed: change `[n_layer, n]`, KL of the first token, and of the forced ones in the mean."""
        self._prefilled(NAIVE, forced=lambda _: chosen)
        first = divergence(self._first[None], self._engine.logits()[None])[0]
        change = changes_of(self._engine.harvest(""), self._rows, self.spans)
        got = self._engine.force(self._forced)
        return change, float(first), float(divergence(self._expected, got).mean())

    def _prefilled(self, policy: Policy, forced: ForcedSelection | None = None) -> CellMap:
        return prefilled(self._engine, self._tokens, self._store, policy, forced=forced).cells


def figures(prompt: Prompt, layer: int, share: float) -> dict[str, dict[str, float]]:
    """By score: `held`, `left`, and KL."""
    change, first, mean = prompt.repaired(np.empty(0, np.int32))
    wrong = (change * prompt.attention).sum(axis=0)
    scores = {
        "nothing": np.zeros(len(wrong)),
        "deviation": prompt.deviation,
        "change of V (an oracle)": change.sum(axis=0),
        "attention, all layers": prompt.attention.mean(axis=0),
        f"deviation × attention of layer {layer}": prompt.deviation * prompt.attention[layer],
        "deviation × attention of all layers": prompt.deviation * prompt.attention.mean(axis=0),
        "read wrong (an oracle)": wrong,
    }
    found = {"nothing": {"held": 0.0, "left": 1.0, "change": 1.0, "kl_first": first, "kl_mean": mean}}
    for name, score in list(scores.items())[1:]:
        chosen = np.argsort(-score)[: max(1, int(share * len(score)))]
        after, first, mean = prompt.repaired(np.sort(prompt.spans[chosen]))
        found[name] = {
            "held": float(wrong[chosen].sum() / wrong.sum()),
            "left": float((after * prompt.attention).sum() / wrong.sum()),
            "change": float(after[:, chosen].sum() / change[:, chosen].sum()),
            "kl_first": first,
            "kl_mean": mean,
        }
    return found


def found_in(engine: Engine, options: argparse.Namespace) -> list[dict[str, dict[str, float]]]:
    """Figures of the first `--n` prompts that hold relayed text."""
    agents, found = load_agents(), list[dict[str, dict[str, float]]]()
    upstream = Upstream(engine, engine.profile, ChainOptions())
    for task in read_tasks(options.tasks):
        for reading in upstream.chain(task, [agents["plan"], agents["solve"]]):
            tokens = upstream.prompts.build(reading.messages).tokens
            if make_plan(tokens, reading.store, RELAY).count(Kind.SPAN):
                found.append(figures(Prompt(engine, tokens, reading.store), options.layer, options.share))
        if len(found) == options.n:
            break
    return found


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("tasks", type=Path)
    parser.add_argument("--n", type=int, default=8)
    parser.add_argument("--layer", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.13)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with opened(options.model, 2048, options.threads) as engine:
        found = found_in(engine, options)
    print(f"{len(found)} prompts, {options.share:.0%} of the relayed tokens recomputed; medians, and shares of the summed loss")
    print(f"{'chosen by':<40}{'held':>6}{'still read wrong':>18}{'their own change left':>23}{'KL first':>10}{'KL mean':>9}")
    for name in found[0]:
        held, left, change = (np.median([each[name][key] for each in found]) for key in ("held", "left", "change"))
        first, mean = (
            sum(each[name][key] for each in found) / sum(each["nothing"][key] for each in found) for key in ("kl_first", "kl_mean")
        )
        print(f"{name:<40}{held:>6.2f}{left:>18.2f}{change:>23.2f}{first:>10.2f}{mean:>9.2f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
