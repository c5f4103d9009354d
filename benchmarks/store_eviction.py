"""Which rows to give up when memory is short: by measured worth, as the store does, or those not used for longest (LRU).

    python benchmarks/store_eviction.py [--conversations 60] [--seed 0]

Replays a trace of dynamic chains on both: several conversations at a time, each agent deciding who runs next, every agent with its
own instructions and history. Prints the seconds of prefill that hits saved at 1 ms a token, for memory that holds so many of the
longest prompts: with prefix reuse only, and with spans as well. The same seed gives the same figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from opened import plain_parser_of

from relaylite.reuse.rows import RowLayout, Rows
from relaylite.store import Store
from relaylite.store.worth import Foresight, Uses

LAYOUT = RowLayout(k_bytes=(8,), v_bytes=(8,), fingerprint="benchmark")
TOKEN_SECONDS = 0.001
MIN_SPAN = 32
NEXT = {  # who follows whom, how often; "" ends a round
    "plan": {"code": 0.8, "ask": 0.2},
    "ask": {"plan": 0.9, "": 0.1},
    "code": {"test": 0.6, "review": 0.4},
    "test": {"fix": 0.5, "review": 0.5},
    "fix": {"test": 0.8, "review": 0.2},
    "review": {"fix": 0.3, "document": 0.2, "": 0.5},
    "document": {"": 1.0},
    "translate": {"": 1.0},  # now and then somebody uses relaylite for something else
}


@dataclass(frozen=True)
class Step:
    agent: str
    prompt: np.ndarray
    answer: np.ndarray


@dataclass(eq=False)
class Conversation:
    said: list[np.ndarray] = field(default_factory=list)  # tasks and answers, in order
    histories: dict[str, np.ndarray] = field(default_factory=dict)  # agent → all of its last prompt and answer
    read: dict[str, int] = field(default_factory=dict)  # agent → how much of `said` its history holds


class Lru(Foresight):
    """Knows nothing, so that only the order of use counts."""

    def chance(self, uses: Uses, soon: dict[str, float]) -> float:
        return 0.0


def trace(n_conversations: int, seed: int) -> Iterator[Step]:
    """Turns of chains, several conversations interleaved."""
    rng = np.random.default_rng(seed)

    def text(low: int, high: int) -> np.ndarray:
        return rng.integers(100, 50_000, rng.integers(low, high), dtype=np.int32)

    instructions = {agent: text(100, 400) for agent in NEXT}
    open_ones = [Conversation() for _ in range(4)]
    for _ in range(n_conversations * 2):
        conversation = open_ones[rng.integers(len(open_ones))]
        conversation.said.append(text(20, 200))
        agent = "translate" if rng.random() < 0.15 else "plan"
        while agent:
            fresh = conversation.said[conversation.read.get(agent, 0) :]
            prompt = np.concatenate([conversation.histories.get(agent, instructions[agent]), *fresh])
            answer = text(40, 250)
            yield Step(agent, prompt, answer)
            conversation.histories[agent] = np.concatenate([prompt, answer])
            conversation.said.append(answer)
            conversation.read[agent] = len(conversation.said)
            agent = str(rng.choice(list(NEXT[agent]), p=list(NEXT[agent].values())))
        if rng.random() < 0.3:
            open_ones[open_ones.index(conversation)] = Conversation()


def seconds_saved(steps: list[Step], budget_bytes: int, foresight: Foresight, *, with_spans: bool) -> float:
    store = Store(LAYOUT, budget_bytes, foresight=foresight)
    store.speed.learn(0, 1000, 1e6 * TOKEN_SECONDS)
    for step in steps:
        prefix = store.prefix(step.prompt, exact=False)
        if with_spans:
            store.spans(step.prompt, len(prefix) if prefix else 0, MIN_SPAN)
        tokens = np.concatenate([step.prompt, step.answer])
        data = np.zeros(len(tokens) * LAYOUT.token_bytes, np.uint8)
        store.put(Rows(tokens, 0, len(tokens), data, LAYOUT, origin=step.agent))
    return store.stats().seconds_saved


def main() -> None:
    parser = plain_parser_of(__doc__)
    parser.add_argument("--conversations", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    steps = list(trace(options.conversations, options.seed))
    longest = max(len(step.prompt) + len(step.answer) for step in steps) * (LAYOUT.token_bytes + 4)
    print(f"{len(steps)} turns, {sum(len(step.prompt) for step in steps) * TOKEN_SECONDS:.0f} s of prefill without a store")
    for name, with_spans in (("prefix only", False), ("prefix and spans", True)):
        most = seconds_saved(steps, len(steps) * longest, Foresight(), with_spans=with_spans)
        print(f"\n{name}: unlimited memory saves {most:.0f} s\nprompts      LRU    worth   of what LRU loses, worth keeps")
        for size in (1, 2, 3, 4, 6, 8):
            lru, worth = (seconds_saved(steps, size * longest, kind(), with_spans=with_spans) for kind in (Lru, Foresight))
            print(f"{size:7} {lru:7.1f}s {worth:7.1f}s   {(worth - lru) / max(most - lru, 1e-9):6.0%}")


if __name__ == "__main__":
    main()
