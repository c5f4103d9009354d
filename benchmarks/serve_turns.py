"""Two answers that take turns: a context each, against one context whose rows are swapped out and in.

    python benchmarks/serve_turns.py [--model MODEL] [--threads N] [--prompt 800] [--tokens 64] [--rounds 3]

Two random prompts of so many tokens are prefilled; then both answers are decoded in turns of 1, 4, 16 and 64 tokens, and without turns.
Swapping reads the rows of one out of the cache (`Engine.harvest`) and places those of the other. The figure is the time of a token,
against that of the same tokens decoded one answer after the other. What a second context takes in memory is printed too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from opened import in_turn, opened, parser_of, timed_ms

from relaylite.bench.statistics import spread
from relaylite.engine.engine import Engine
from relaylite.reuse.plan import Kind, Plan, Segment
from relaylite.reuse.policies import FULL, PREFIX
from relaylite.reuse.rows import Rows, Tokens

QUANTA = (1, 4, 16, 64)


def start(engine: Engine, prompt: Tokens) -> None:
    engine.prefill(Plan(prompt, (Segment(0, len(prompt), Kind.NEW),), FULL), lambda _: None)


def swap_in(engine: Engine, rows: Rows) -> None:
    """The rows in place again. The last token is computed once more, as a plan wants."""
    n = len(rows)
    engine.prefill(
        Plan(rows.tokens, (Segment(0, n - 1, Kind.PREFIX, rows.slice(0, n - 1)), Segment(n - 1, n, Kind.NEW)), PREFIX), lambda _: None
    )


def two_contexts(engines: tuple[Engine, Engine], prompts: list[Tokens], n: int, quantum: int) -> float:
    for engine, prompt in zip(engines, prompts, strict=True):
        start(engine, prompt)

    def decode() -> None:
        for _ in range(n // quantum):
            for engine in engines:
                for _ in range(quantum):
                    engine.force([100])

    return timed_ms(decode) / (2 * n)


def swapped(engine: Engine, prompts: list[Tokens], n: int, quantum: int) -> float:
    out: list[Rows] = []
    for prompt in prompts:
        start(engine, prompt)
        out.append(engine.harvest(""))

    def decode() -> None:
        for _ in range(n // quantum):
            for i in range(2):
                swap_in(engine, out[i])
                for _ in range(quantum):
                    engine.force([100])
                out[i] = engine.harvest("")

    return timed_ms(decode) / (2 * n)


def main() -> None:
    parser = parser_of(__doc__ or "")
    parser.add_argument("--prompt", type=int, default=800)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with opened(args.model, args.prompt + 2 * args.tokens + 64, args.threads) as engine:
        beside = engine.beside()
        try:
            words = np.random.default_rng(0)
            prompts = [words.integers(20, engine.info.n_vocab - 20, args.prompt).astype(np.int32) for _ in range(2)]
            ways: dict[str, Callable[[], float]] = {
                "one after the other": lambda: two_contexts((engine, beside), prompts, args.tokens, args.tokens)
            }
            for quantum in (q for q in QUANTA if q <= args.tokens):
                ways[f"contexts, {quantum}"] = lambda q=quantum: two_contexts((engine, beside), prompts, args.tokens, q)  # type: ignore[misc]
                ways[f"swapped, {quantum}"] = lambda q=quantum: swapped(engine, prompts, args.tokens, q)  # type: ignore[misc]
            found = in_turn(ways, args.rounds)
            memory = beside.memory()
            print(f"a second context: {(memory.kv_bytes + memory.compute_bytes + memory.capture_bytes) / 1e6:.0f} MB")
            for name, times in found.items():
                ratios = [mine / base for mine, base in zip(times, found["one after the other"], strict=True)]
                print(f"{name:22} {spread(times)} ms a token, {spread(ratios)} x")
        finally:
            beside.close()


if __name__ == "__main__":
    main()
