"""How finding, placing, rotating and repairing relayed rows grow with their number, up to 32,768 tokens.

    python benchmarks/long_context.py [--model FILE] [--lengths 1024,4096,8192,16384,32768] [--rounds 3] [--threads 2] [--clock wall]

Without a model one of random weights is written: four layers with heads of a real model's size, so that a full prefill of 32k tokens stays
affordable. Random tokens, all of them relayed to another place behind others; policies take turns. Printed are medians: milliseconds of
each step, and its microseconds a relayed token, which would grow if a step were not linear. `--clock cpu` counts what this process
computed instead of what went by, for a machine that is not quiet.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from opened import in_turn, opened, parser_of, prefilled, random_tokens

from relaylite.bench.statistics import spread
from relaylite.engine.engine import Engine
from relaylite.reuse.plan import Kind
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import FULL, NAIVE, RELAY, Policy
from relaylite.store import Store

BEFORE, BEHIND = 64, 16  # new tokens around the relayed ones
OTHERS = 64  # texts in the store beside the relayed one, as long as it all together
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass
class Times:
    """Milliseconds of each step, one a round."""

    steps: dict[str, list[float]] = field(default_factory=dict)

    def add(self, step: str, ms: float) -> None:
        self.steps.setdefault(step, []).append(ms)

    def median(self, *steps: str) -> float:
        return sum(spread(self.steps[step]).median for step in steps if step in self.steps)


class Stage:
    """An engine with a store that knows one long text and many others."""

    def __init__(self, engine: Engine, n: int, clock: Callable[[], float]) -> None:
        self._engine, self._clock = engine, clock
        text, before, behind, others = np.split(random_tokens(engine, 2 * n + BEFORE + BEHIND), np.cumsum([n, BEFORE, BEHIND]))
        self.prompt = np.concatenate([before, text, behind])
        self.store = Store(engine.layout, 1 << 40)
        for stored in [*np.array_split(others, OTHERS), text]:
            prefilled(engine, stored)
            self.store.put(engine.harvest("writer"))

    def run(self, policy: Policy, times: Times) -> int:
        """One turn: plan and prefill, each step on the clock. Returns the number of relayed tokens."""
        self._engine.configure(self._engine.profile)  # from an empty sequence
        at = self._clock()
        step = "match"

        def next_step(name: str) -> None:
            nonlocal at, step
            now = self._clock()
            times.add(step, (now - at) * 1e3)
            at, step = now, name

        plan = make_plan(self.prompt, self.store, policy)
        next_step("start")
        self._engine.prefill(plan, next_step)
        next_step("")
        return plan.count(Kind.SPAN)


def write_model(folder: Path, n_ctx: int) -> Path:
    """Random weights, from what the tests write their models with."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from support.tiny_models import write_model as write

    return write(folder / "random.gguf", "llama", n_layer=4, metadata={"llama.context_length": n_ctx})


def measure(engine: Engine, lengths: list[int], n_rounds: int, clock: Callable[[], float]) -> None:
    print("| relayed | match ms (µs) | place ms (µs) | select ms (µs) | fill ms (µs) | naive ms | relay ms | full ms | naive × | relay × |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for n in lengths:
        stage = Stage(engine, n, clock)
        full, naive, relay = Times(), Times(), Times()
        ways = {"full": (FULL, full), "naive": (NAIVE, naive), "relay": (RELAY, relay)}
        relayed = in_turn({name: partial(stage.run, policy, times) for name, (policy, times) in ways.items()}, n_rounds)
        assert {*relayed["naive"], *relayed["relay"]} == {n}
        whole = full.median(*full.steps)
        cheap, repaired = naive.median(*naive.steps), relay.median(*relay.steps)
        per_step = (relay.median("match"), relay.median("place"), relay.median("repair"), relay.median("suffix"))
        cells = " | ".join(f"{ms:.1f} ({ms / n * 1e3:.1f})" for ms in per_step)
        ratios = f"{whole / cheap:.1f} | {whole / repaired:.1f}"
        print(f"| {n} | {cells} | {cheap:.0f} | {repaired:.0f} | {whole:.0f} | {ratios} |", flush=True)


def main() -> None:
    parser = parser_of(__doc__, threads=2)
    parser.set_defaults(model="")
    parser.add_argument("--lengths", default="1024,4096,8192,16384,32768")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    options = parser.parse_args()
    lengths = [int(n) for n in options.lengths.split(",")]
    with tempfile.TemporaryDirectory() as name:
        model = options.model or write_model(Path(name), 2 * max(lengths))
        with opened(model, max(lengths) + BEFORE + BEHIND + 1, options.threads) as engine:
            measure(engine, lengths, options.rounds, CLOCKS[options.clock])


if __name__ == "__main__":
    main()
