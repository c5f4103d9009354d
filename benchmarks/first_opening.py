"""What the first opening of a model file costs more than later ones: its hash, and the trial in a process of its own.

    python benchmarks/first_opening.py [--model MODEL] [--threads N] [--rounds 5]

Prints one JSON document: seconds by the clock and of processors, this process and its child together, the median of rounds that take turns.
The file is in the system's cache.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import dataclass
from statistics import median

from opened import in_turn, opened, parser_of

from relaylite.paths import HOME_VARIABLE


@dataclass(frozen=True)
class Cost:
    clock_s: float
    processor_s: float


def cost_of(model: str, n_threads: int | None, home: str, *, trial: bool) -> Cost:
    """Of opening and closing, with what is remembered in `home`."""
    os.environ[HOME_VARIABLE] = home
    clock, before = time.perf_counter(), os.times()
    with opened(model, 4096, n_threads, trial=trial):
        pass
    after = os.times()
    return Cost(time.perf_counter() - clock, sum(after[:4]) - sum(before[:4]))


def first(model: str, n_threads: int | None, *, trial: bool) -> Cost:
    with tempfile.TemporaryDirectory() as home:
        return cost_of(model, n_threads, home, trial=trial)


def summary(costs: list[Cost]) -> dict[str, float]:
    names = ("clock_s", "processor_s")
    return {name: round(median(getattr(cost, name) for cost in costs), 2) for name in names}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        cost_of(args.model, args.threads, home, trial=True)
        costs = in_turn(
            {
                "first": lambda: first(args.model, args.threads, trial=True),
                "first, without a trial": lambda: first(args.model, args.threads, trial=False),
                "later": lambda: cost_of(args.model, args.threads, home, trial=True),
            },
            args.rounds,
        )
    print(json.dumps({name: summary(found) for name, found in costs.items()}))


if __name__ == "__main__":
    main()
