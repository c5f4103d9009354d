"""How much answers repeat themselves, and how many are right, under ways of sampling that take turns on the same tasks.

python benchmarks/repeats.py TASKS… [--n 10] [--max-tokens 200] [--threads 1] [--way NAME:VALUE=X,…]… [--show]

A built-in agent answers: solve where a number or a letter is right, code where a program is, write otherwise. The ways `greedy`
(temperature 0) and `default` (each role's own values) are always there. Repeated 8-grams: of an answer's runs of 8 tokens the share that
stood in it before, in the mean over the answers. An answer loops if that is more than half. Programs are executed. Ctrl-C ends it with what
was measured until then.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from opened import in_turn, parser_of

from relaylite import Relay
from relaylite.bench.grading import is_right
from relaylite.bench.tasks import Task, read_tasks

AGENTS = {"gsm8k": "solve", "mmlu": "solve", "humaneval": "code", "plain": "write"}
N_GRAM = 8
Sampling = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """`is_right`: None for an answer that is not graded. `has_ended`: it was not cut by max tokens."""

    agent: str
    repeated: float
    is_right: bool | None
    has_ended: bool
    text: str


def repeated_share(tokens: tuple[int, ...]) -> float:
    grams = [tokens[i : i + N_GRAM] for i in range(len(tokens) - N_GRAM + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def answer_of(relay: Relay, task: Task, sampling: Sampling) -> Answer:
    [turn] = relay.chain([AGENTS[task.kind]], policy="full", sampling=sampling).run(task.text).turns
    right = is_right(task, turn.text) if task.is_graded(execute=True) else None
    return Answer(turn.agent, repeated_share(turn.tokens), right, turn.finish_reason == "stop", turn.text)


def way_of(text: str) -> tuple[str, Sampling]:
    name, _, values = text.partition(":")
    pairs = (value.split("=") for value in values.split(",") if value)
    return name, {key: float(number) if "." in number else int(number) for key, number in pairs}


def row_of(way: str, answers: list[Answer]) -> str:
    n = len(answers)
    graded = [answer.is_right for answer in answers if answer.is_right is not None]
    share, n_loops = sum(answer.repeated for answer in answers) / n, sum(answer.repeated > 0.5 for answer in answers)
    right = f"{sum(graded)} of {len(graded)}" if graded else "–"
    return f"{way:>16} {n:7d} {share:16.1%} {n_loops:5d} {sum(answer.has_ended for answer in answers):5d} {right:>9}"


def main() -> None:
    parser = parser_of(__doc__ or "", threads=1)
    parser.add_argument("tasks", nargs="+", type=Path, help="files as relaylite bench reads them")
    parser.add_argument("--n", type=int, default=10, help="tasks of each file")
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument(
        "--way", action="append", type=way_of, default=[], help="another way, such as dry:temperature=0.0,dry_multiplier=0.8"
    )
    parser.add_argument("--show", action="store_true", help="print the answers too")
    options = parser.parse_args()
    ways: dict[str, Sampling] = {"greedy": {"temperature": 0}, "default": {}, **dict(options.way)}
    answers: dict[str, list[Answer]] = {way: [] for way in ways}
    shared = {"max_tokens": options.max_tokens}
    with Relay(options.model, n_ctx=2048, n_threads=options.threads, store_bytes=10**7, sampling=shared) as relay:
        files = [read_tasks(path, options.n) for path in options.tasks]
        with suppress(KeyboardInterrupt):
            for task in [task for row in zip_longest(*files) for task in row if task]:
                for way, [found] in in_turn({way: partial(answer_of, relay, task, values) for way, values in ways.items()}, 1).items():
                    answers[way].append(found)
                    if options.show:
                        print(f"=== {found.agent}, {way}, right: {found.is_right}\n{found.text}", flush=True)
    print(f"{'':>16} answers repeated 8-grams loops ended     right")
    for agent in dict.fromkeys(answer.agent for answer in answers["greedy"]):
        print(agent)
        for way in ways:
            print(row_of(way, [answer for answer in answers[way] if answer.agent == agent]))


if __name__ == "__main__":
    main()
