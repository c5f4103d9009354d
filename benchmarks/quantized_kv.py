"""What a quantized KV cache loses against F16, with and without llama.cpp's Hadamard rotation of it, and what relaying loses on top.

    python benchmarks/quantized_kv.py [--model FILE] [--tasks 8] [--answer 96] [--follow 32] [--threads 2]

The same tokens everywhere: answers and their continuations are those of F16. Each answer is written token by token into every cache,
and its rows are relayed from there. KL is that of the next-token distribution against a full prefill with F16, in nats, over the
prompt's last token and the forced ones; top-1 is how often both would take the same token.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import numpy as np
from opened import opened, parser_of, prefilled

from relaylite.bench.statistics import divergence
from relaylite.chain.agents import BUILT_IN
from relaylite.engine.engine import Engine
from relaylite.engine.native import F32
from relaylite.prompt.builder import PromptBuilder
from relaylite.prompt.messages import Answer, Message, Text
from relaylite.reuse.policies import FULL, NAIVE, RELAY, Policy
from relaylite.sampling import Sampling
from relaylite.store import Store

WRITER, READER = "plan", "solve"
TASKS = (
    "A train leaves at 9:40 and needs 2 hours and 35 minutes. When does it arrive, and how long before 13:00 is that?",
    "Ann has 3 boxes with 12 pencils each. She gives a third of them away and loses 4. How many are left?",
    "A recipe for 4 people needs 300 g of flour and 2 eggs. What do 10 people need?",
    "Explain how to find out which of nine coins is lighter than the others, with two weighings.",
    "A shop sells apples at 40 cents and pears at 55 cents. What do 6 apples and 4 pears cost, and how much is left of 10 dollars?",
    "Plan a day in a town with a castle, a museum and a river, with lunch, so that the museum comes last.",
    "A rectangle is twice as long as it is wide and has a perimeter of 54 cm. What is its area?",
    "Two friends share 84 marbles so that one gets twice as many as the other. How many has each?",
)
CACHES = (("f16", True), ("q8_0", True), ("q8_0", False), ("q4_0", True), ("q4_0", False))
POLICIES: dict[str, Policy] = {"full": FULL, "naive": NAIVE, "relay": RELAY}


@dataclass(frozen=True)
class Case:
    """One handover: what the writer read and wrote, what the reader reads, and how F16 goes on."""

    asked: list[int]
    answer: list[int]
    read: list[int]
    following: list[int]
    expected: F32


@dataclass
class Loss:
    kl: list[float] = field(default_factory=list)
    kl_first: list[float] = field(default_factory=list)
    top1: list[float] = field(default_factory=list)

    def add(self, expected: F32, logits: F32) -> None:
        distances = divergence(expected, logits)
        self.kl_first.append(float(distances[0]))
        self.kl.append(float(distances.mean()))
        self.top1.append(float((expected.argmax(axis=1) == logits.argmax(axis=1)).mean()))


def opened_with(model: str, kv_type: str, is_rotated: bool, n_threads: int) -> AbstractContextManager[Engine]:
    """llama.cpp reads the variable when it makes a context."""
    os.environ["LLAMA_ATTN_ROT_DISABLE"] = "0" if is_rotated else "1"
    return opened(model, 2048, n_threads, kv_type=kv_type)


def logits_behind(engine: Engine, store: Store, tokens: list[int], policy: Policy, following: list[int]) -> F32:
    prefilled(engine, tokens, store, policy)
    first = engine.logits()
    return np.concatenate([first[None], engine.force(following)])


def cases_of(engine: Engine, n_tasks: int, n_answer: int, n_follow: int) -> Iterator[Case]:
    """As F16 writes and goes on, greedily."""
    prompts, empty = PromptBuilder(engine.template, engine.tokenizer), Store(engine.layout, 0)

    def written(tokens: list[int], n: int) -> list[int]:
        prefilled(engine, tokens)
        writer = engine.generate(Sampling(max_tokens=n))
        for _ in writer:
            pass
        return list(writer.tokens)

    instructions = {agent.name: agent.instructions for agent in BUILT_IN}
    for task in TASKS[:n_tasks]:
        system, reader = (Message("system", (Text(instructions[name], "system"),)) for name in (WRITER, READER))
        asked = prompts.build([system, Message("user", (Text(task),))]).tokens.tolist()
        answer = written(asked, n_answer)
        body = (Text(task), Text("\n\nPlan:\n\n", "glue"), Answer(tuple(answer)), Text("\n\nNow solve it.", "glue"))
        read = prompts.build([reader, Message("user", body)]).tokens.tolist()
        following = written(read, n_follow)
        yield Case(asked, answer, read, following, logits_behind(engine, empty, read, FULL, following))


def measure(engine: Engine, cases: list[Case]) -> tuple[dict[str, Loss], float]:
    """Losses by policy, and the mean share of the answer that `relay` recomputes."""
    losses = {name: Loss() for name in POLICIES}
    shares = []
    for case in cases:
        store = Store(engine.layout, 1 << 40)
        prefilled(engine, case.asked)
        for token in case.answer:
            engine.force([token])
        store.put(engine.harvest(WRITER))
        for name, policy in POLICIES.items():
            losses[name].add(case.expected, logits_behind(engine, store, case.read, policy, case.following))
        cells = prefilled(engine, case.read, store, RELAY).cells
        shares.append(cells.recomputed_tokens / len(case.answer))
    return losses, float(np.mean(shares))


def main() -> None:
    parser = parser_of(__doc__, threads=2)
    parser.add_argument("--tasks", type=int, default=len(TASKS))
    parser.add_argument("--answer", type=int, default=96)
    parser.add_argument("--follow", type=int, default=32)
    options = parser.parse_args()
    with opened_with(options.model, "f16", True, options.threads) as engine:
        cases = list(cases_of(engine, options.tasks, options.answer, options.follow))
    n = float(np.mean([len(case.answer) for case in cases]))
    print(f"{len(cases)} handovers of {n:.0f} tokens, {sum(len(case.following) + 1 for case in cases)} positions\n")
    print("| K and V | Hadamard rotation | policy | KL mean | KL first | top-1 | selected |\n| --- | --- | --- | --- | --- | --- | --- |")
    for kv_type, is_rotated in CACHES:
        with opened_with(options.model, kv_type, is_rotated, options.threads) as engine:
            losses, share = measure(engine, cases)
        for name, loss in losses.items():
            rotation = "–" if kv_type == "f16" else "on" if is_rotated else "off"
            selected = f"{share:.2f}" if name == "relay" else "–"
            numbers = f"{np.mean(loss.kl):.4f} | {np.mean(loss.kl_first):.4f} | {np.mean(loss.top1):.3f}"
            print(f"| {kv_type} | {rotation} | {name} | {numbers} | {selected} |", flush=True)


if __name__ == "__main__":
    main()
