"""Two installations of relaylite against each other: time to first token, decode speed and memory, as ratios within one run.

    python benchmarks/two_installs.py BEFORE AFTER [--model FILE] [--threads 2] [--rounds 8] [--policy relay]

BEFORE and AFTER are Python interpreters of two environments. Each opens the model once; then they take turns, chain by chain, so that
whatever else the machine does meets both. Nothing else should run meanwhile. Ratios are AFTER by BEFORE: below 1 it is faster or smaller.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from statistics import quantiles
from typing import Any

TASKS = (
    "Ann has 12 apples and gives a third of them away. How many does she keep?",
    "A train leaves at 9:40 and needs 2 hours and 35 minutes. When does it arrive?",
    "Write a function that merges two sorted lists.",
    "A shirt costs 40 euros and is sold 15 percent cheaper. What does it cost?",
)

# Only names that every version of relaylite has.
WORKER = """
import json, sys
from relaylite import Relay
model, policy, n_threads, max_tokens = json.loads(sys.argv[1])
with Relay(model, policy=policy, n_threads=n_threads, sampling={"max_tokens": max_tokens, "temperature": 0}) as relay:
    print(json.dumps("open"), flush=True)
    for line in sys.stdin:
        turns = relay.chain(["plan", "solve", "check"]).run(json.loads(line)).turns
        figures = [{"ttft_ms": t.metrics.ttft_ms, "tokens_per_s": t.metrics.decode_tokens_per_s} for t in turns]
        answer = {"turns": figures, "texts": [t.text for t in turns], "resident_bytes": relay.memory().resident_bytes}
        print(json.dumps(answer), flush=True)
"""


class Worker:
    """A process of one installation, with the model open."""

    def __init__(self, python: str, arguments: str) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([python, "-P", "-c", WORKER, arguments], stdin=pipe, stdout=pipe, text=True)
        self._answer()

    def run(self, task: str) -> Any:
        """The figures of one chain, on a conversation of its own."""
        assert self._process.stdin is not None
        print(json.dumps(task), file=self._process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        self._process.communicate()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


class Comparison:
    """What AFTER took in shares of BEFORE, pair by pair."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers
        self._ttft: dict[int, list[float]] = {}
        self._decode: list[float] = []
        self._is_same: list[bool] = []
        self._resident = [0, 0]

    def run(self, number: int, task: str) -> None:
        """One chain on both; who begins changes with every round."""
        answers = {at: self._workers[at].run(task) for at in ((0, 1) if number % 2 else (1, 0))}
        for index, (old, new) in enumerate(zip(answers[0]["turns"], answers[1]["turns"], strict=True)):
            self._ttft.setdefault(index, []).append(new["ttft_ms"] / old["ttft_ms"])
            self._decode.append(old["tokens_per_s"] / new["tokens_per_s"])
        self._is_same.append(answers[0]["texts"] == answers[1]["texts"])
        self._resident = [answers[at]["resident_bytes"] for at in (0, 1)]

    def report(self) -> Iterator[str]:
        for index, ratios in self._ttft.items():
            yield _spread(f"time to first token of agent {index + 1}", ratios)
        yield _spread("time of a decoded token", self._decode)
        before, after = self._resident
        yield f"{'resident memory at the end':34} {after / before:.3f} ({after / 1e6:.0f} MB)"
        yield f"{sum(self._is_same)} of {len(self._is_same)} chains wrote the same text"


def _spread(name: str, ratios: list[float]) -> str:
    low, middle, high = quantiles(ratios, n=4)
    return f"{name:34} {middle:.3f} ({low:.3f}-{high:.3f}), {len(ratios)} pairs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="Python of the environment to compare with")
    parser.add_argument("after", help="Python of the environment that is measured")
    parser.add_argument("--model")
    parser.add_argument("--policy", default="relay")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128, help="of each answer")
    options = parser.parse_args()
    arguments = json.dumps([options.model, options.policy, options.threads, options.tokens])
    workers = [Worker(python, arguments) for python in (options.before, options.after)]
    comparison = Comparison(workers)
    for number in range(options.rounds):
        comparison.run(number, f"{number}. {TASKS[number % len(TASKS)]}")
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    for worker in workers:
        worker.close()
    print(*comparison.report(), sep="\n")


if __name__ == "__main__":
    main()
