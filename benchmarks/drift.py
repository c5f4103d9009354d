"""How errors pile up over a long conversation, with and without settling.

    python benchmarks/drift.py [--model FILE] [--turns 20] [--first 0] [--max-tokens 48] [--policy relay] [--threads N] [--json FILE]

One conversation of so many messages (the tasks below in turn, from number `--first` on) with the agents plan and code, kept twice: as it
is, and with the past settled before each message (`Chain.settle`, as the chat does while the user reads). Both hold the same texts, those
of the first. For each message the last agent's prompt is prefilled from the rows of either (`live`) and computed whole (`full`); reported
is KL(full ‖ live), of the first token and in the mean over the greedy continuation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from opened import opened, parser_of, prefilled

from relaylite import Agent, Relay
from relaylite.bench.statistics import divergence
from relaylite.chain.conversation import Round, messages_for
from relaylite.engine.engine import Engine
from relaylite.engine.native import F32
from relaylite.events import Turn
from relaylite.metrics import TurnMetrics
from relaylite.prompt.builder import PromptBuilder
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import Policy, parse_policy
from relaylite.reuse.rows import Tokens
from relaylite.sampling import Sampling
from relaylite.store import Store

AGENTS = (
    Agent("plan", "You plan. Say in a few sentences how the task is best done."),
    Agent("code", "You write Python. Follow the plan and answer with a short program."),
)
TASKS = (
    "Sort a list of words by length.", "Count how often each word occurs in a text.", "Find the largest even number in a list.",
    "Reverse every word of a sentence.", "Merge two sorted lists.", "Check whether a text reads the same backwards.",
    "Compute the average of the numbers in a file.", "Remove duplicates from a list and keep the order.",
    "Turn a number of seconds into hours and minutes.", "Find the second smallest number.",
)  # fmt: skip
LAST = len(AGENTS) - 1
N_FORCED = 32
PLENTY = 1 << 36


@dataclass(frozen=True)
class Loss:
    """Of the last agent's prompt at one message."""

    message: int
    is_settled: bool
    prompt_tokens: int
    exact_tokens: int
    settled_tokens: int
    kl_first: float
    kl_mean: float


class Kept:
    """One keeping of the conversation: its own rows, and whether they are settled."""

    def __init__(self, engine: Engine, policy: Policy, max_tokens: int, *, is_settled: bool) -> None:
        self.is_settled = is_settled
        self._engine, self._policy, self._sampling = engine, policy, Sampling(max_tokens=max_tokens)
        self.store = Store(engine.layout, PLENTY)
        self._relay = Relay(engine=engine, policy=policy, store_bytes=0)
        self._relay._runner.store = self.store
        self.chain = self._relay.chain(AGENTS, sampling={"max_tokens": max_tokens, "temperature": 0})

    def settle(self) -> int:
        return self.chain.settle() if self.is_settled else 0

    def place(self, tokens: Tokens) -> int:
        """Prefill the prompt from the rows kept; how many of its tokens are exact."""
        prefilled(self._engine, tokens, self.store, self._policy)
        return make_plan(tokens, self.store, self._policy).n_exact

    def answer(self, agent: str, tokens: Tokens, said: tuple[int, ...] | None) -> tuple[int, ...]:
        """The answer to the prompt, greedy, or what was `said` decoded likewise; its rows are kept."""
        self.place(tokens)
        if said is None:
            writer = self._engine.generate(self._sampling)
            for _ in writer:
                pass
            said = writer.tokens
        else:
            for token in said[:-1]:
                self._engine.force([token])
        self.store.put(self._engine.harvest(agent))
        return said


def reference(engine: Engine, tokens: Tokens) -> tuple[F32, list[int]]:
    """Logits behind the prompt computed whole and behind each token of its greedy continuation, and that continuation."""
    prefilled(engine, tokens)
    logits, forced = [engine.logits().copy()], list[int]()
    for _ in range(N_FORCED):
        forced.append(int(logits[-1].argmax()))
        logits.append(engine.force(forced[-1:])[0].copy())
    return np.stack(logits), forced


def conversation(engine: Engine, keepings: list[Kept], tasks: list[str]) -> Iterator[Loss]:
    prompts = PromptBuilder(engine.template, engine.tokenizer)
    rounds: list[Round] = []
    for number, task in enumerate(tasks):
        n_settled = [kept.settle() for kept in keepings]
        rounds.append(Round(task))
        for index, agent in enumerate(AGENTS):
            tokens = prompts.build(messages_for(AGENTS, index, rounds)).tokens
            if index == LAST:
                expected, forced = reference(engine, tokens)
                for kept, n in zip(keepings, n_settled, strict=True):
                    n_exact = kept.place(tokens)
                    seen = np.concatenate([engine.logits().copy()[None], engine.force(forced)])
                    kl = divergence(expected, seen)
                    yield Loss(number + 1, kept.is_settled, len(tokens), n_exact, n, float(kl[0]), float(kl.mean()))
            said = None
            for kept in keepings:
                said = kept.answer(agent.name, tokens, said)
            assert said is not None
            text = b"".join(map(engine.tokenizer.piece, said)).decode(errors="replace")
            rounds[-1].turns.append(Turn(agent.name, index, number, text, said, "length", TurnMetrics()))
        for kept in keepings:
            kept.chain.rounds[:] = [replace(round, turns=list(round.turns)) for round in rounds]


def line(as_it_is: Loss, settled: Loss) -> str:
    return (
        f"{settled.message:7} {settled.prompt_tokens:7} {as_it_is.exact_tokens:6} {settled.settled_tokens:8}   {as_it_is.kl_first:.4f} "
        f"{as_it_is.kl_mean:.5f}  {settled.exact_tokens:13}   {settled.kl_first:.4f} {settled.kl_mean:.5f}"
    )


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--policy", default="relay")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    policy = parse_policy(options.policy)
    losses: list[Loss] = []
    tasks = [TASKS[number % len(TASKS)] for number in range(options.first, options.first + options.turns)]
    print("message  prompt  exact  settled   KL first, mean      settled: exact  KL first, mean")
    with opened(options.model, 8192, options.threads) as engine:
        keepings = [Kept(engine, policy, options.max_tokens, is_settled=is_settled) for is_settled in (False, True)]
        for loss in conversation(engine, keepings, tasks):
            losses.append(loss)
            if loss.is_settled:
                print(line(losses[-2], loss), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps({"losses": [asdict(loss) for loss in losses]}, indent=1))


if __name__ == "__main__":
    main()
