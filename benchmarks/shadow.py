"""What shadow prefill would cost and save: while an agent decodes, its answer is prefilled exactly as a second sequence in the same
batches, behind the known start of the next agent's prompt.

    python benchmarks/shadow.py [--model FILE] [--tokens 128] [--rounds 5] [--threads 2]

First the cost of a decode step with so many tokens more in its batch, then whole handovers: writing an answer and the next agent's time to
its first token, without and with shadow prefill in chunks of several sizes. All ways take turns; printed are medians and their ratios.
What relaylite does about it: docs/decisions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from llama_cpp import llama_cpp as lc
from opened import in_turn, opened, parser_of, plain_context, prefilled, timed_ms

from relaylite.bench.statistics import spread
from relaylite.engine.engine import Engine
from relaylite.gguf.catalog import resolve_model
from relaylite.prompt.builder import PromptBuilder
from relaylite.prompt.messages import Message, Text
from relaylite.reuse.policies import FULL, PREFIX, RELAY
from relaylite.sampling import Sampling
from relaylite.store import Store

N_CTX = 4096
MAX_BATCH = 512
TASK = "Write a long story about a lighthouse keeper who counts the ships that pass, one by one, and writes down each of them."
START = (
    "You review what others wrote. Read the task and the draft with care, look for mistakes of fact, of logic and of language, and "
    "name the three most important ones, each with the sentence in which it stands and with a better one. Be short, be kind, and do "
    "not repeat the draft. If there is nothing to say, say so in one line. Write in the language of the task. "
) * 2
END = "\n\nNow answer as the reviewer, following your instructions."
MORE = (0, 1, 2, 3, 4, 8, 16, 32, 64)
CHUNKS = (1, 8, 32)
PLAIN = "prefix, by plain llama.cpp"
WRITER, READER = 0, 1  # sequences


@dataclass(frozen=True)
class Handover:
    """Tokens of one: the writer's prompt and answer, and what stands before and behind the answer in the reader's prompt."""

    prompt: list[int]
    answer: list[int]
    start: list[int]
    end: list[int]


class TwoSequences:
    """A plain llama.cpp context with two sequences; `n[sequence]` tokens are in each."""

    def __init__(self, path: Path, n_threads: int) -> None:
        self._model, self._context = plain_context(path, N_CTX, n_threads, n_sequences=2)
        self._memory = lc.llama_get_memory(self._context)
        self._batch = lc.llama_batch_init(MAX_BATCH, 0, 1)
        self.n = [0, 0]

    def decode(self, *runs: tuple[int, Sequence[int]]) -> None:
        """One batch: tokens of a sequence, and of the other; logits of the last of each."""
        batch, at = self._batch, 0
        for sequence, tokens in runs:
            for j, token in enumerate(tokens):
                batch.token[at], batch.pos[at], batch.n_seq_id[at] = token, self.n[sequence] + j, 1
                batch.seq_id[at][0], batch.logits[at] = sequence, j == len(tokens) - 1
                at += 1
            self.n[sequence] += len(tokens)
        batch.n_tokens = at
        if lc.llama_decode(self._context, batch) != 0:
            raise SystemExit("llama.cpp could not decode")

    def prefill(self, sequence: int, tokens: Sequence[int]) -> None:
        for first in range(0, len(tokens), MAX_BATCH):
            self.decode((sequence, tokens[first : first + MAX_BATCH]))

    def cut(self, writer: int, reader: int) -> None:
        for sequence, n in ((WRITER, writer), (READER, reader)):
            lc.llama_memory_seq_rm(self._memory, sequence, n, -1)
            self.n[sequence] = n


def handover_of(engine: Engine, store: Store, n_tokens: int) -> Handover:
    """A real answer, its rows in the store as writing left them."""
    start, end = (engine.tokenizer.tokenize(text, parse_special=False) for text in (START, END))
    prompt = PromptBuilder(engine.template, engine.tokenizer).build([Message("user", (Text(TASK),))]).tokens
    prefilled(engine, prompt)
    writer = engine.generate(Sampling(max_tokens=n_tokens + 1))
    for _ in writer:
        pass
    store.put(engine.harvest("writer"))
    answer = list(writer.tokens)[:n_tokens]
    prefilled(engine, start)
    store.put(engine.harvest(""))
    return Handover(list(prompt), answer, start, end)


def step_costs(two: TwoSequences, handover: Handover, n_rounds: int) -> dict[int, list[float]]:
    """Milliseconds of a decode step in the middle of the answer, by tokens of the reader in its batch."""
    middle = len(handover.answer) // 2
    two.cut(0, 0)
    two.prefill(READER, handover.start + handover.answer[:middle])
    two.prefill(WRITER, handover.prompt + handover.answer[:middle])
    writer, reader = two.n

    def step_ms(n: int) -> float:
        more = [(READER, (handover.answer * 2)[middle : middle + n])] if n else []
        ms = timed_ms(lambda: two.decode((WRITER, handover.answer[middle : middle + 1]), *more))
        two.cut(writer, reader)
        return ms

    found = in_turn({str(n): partial(step_ms, n) for n in MORE}, n_rounds * 4)
    return {n: found[str(n)] for n in MORE}


def shadowed(two: TwoSequences, handover: Handover, chunk: int) -> tuple[float, float]:
    """Milliseconds of writing the answer, and of the reader's way to its first token; `chunk` 0: no shadow."""
    two.cut(0, 0)
    two.prefill(READER, handover.start)
    two.prefill(WRITER, handover.prompt)
    answer, n_done = handover.answer, 0

    def write() -> None:
        nonlocal n_done
        for at, token in enumerate(answer):
            if chunk and at + 1 - n_done == chunk:
                two.decode((WRITER, [token]), (READER, answer[n_done : at + 1]))
                n_done = at + 1
            else:
                two.decode((WRITER, [token]))

    decode_ms = timed_ms(write)
    return decode_ms, timed_ms(lambda: two.prefill(READER, answer[n_done:] + handover.end))


def handovers(engine: Engine, store: Store, two: TwoSequences, handover: Handover, n_rounds: int) -> dict[str, list[tuple[float, float]]]:
    """By way: milliseconds of writing the answer, and of the reader's way to its first token. relaylite writes as plain llama.cpp does."""
    tokens = handover.start + handover.answer + handover.end
    ways: dict[str, Callable[[], tuple[float, float]]] = {PLAIN: lambda: shadowed(two, handover, 0)}
    ways |= {f"shadow, chunks of {chunk}": partial(shadowed, two, handover, chunk) for chunk in CHUNKS}
    for name, policy in (("full", FULL), ("prefix", PREFIX), ("relay", RELAY)):
        ways[name] = lambda policy=policy: (0.0, timed_ms(lambda: prefilled(engine, tokens, store, policy)))  # type: ignore[misc]
    rounds = in_turn(ways, n_rounds)
    for name in ("full", "prefix", "relay"):
        rounds[name] = [(plain[0], own[1]) for plain, own in zip(rounds[PLAIN], rounds[name], strict=True)]
    return rounds


def report_steps(costs: dict[int, list[float]]) -> None:
    print(f"a decode step takes {spread(costs[0]).median:.1f} ms; with tokens of the reader in its batch:\n")
    print("| tokens more | step × | ms a token more |\n| --- | --- | --- |")
    for n in MORE[1:]:
        ratio = spread([a / b for a, b in zip(costs[n], costs[0], strict=True)]).median
        print(f"| {n} | {ratio:.2f} | {(spread(costs[n]).median - spread(costs[0]).median) / n:.2f} |")


def report_handovers(rounds: dict[str, list[tuple[float, float]]]) -> None:
    print("| way | writing ms | writing × | TTFT ms | both ms | both × of prefix |\n| --- | --- | --- | --- | --- | --- |")
    base = rounds["prefix"]
    for name, times in rounds.items():
        write_ms, ttft_ms = (spread([one[i] for one in times]).median for i in (0, 1))
        slower = spread([one[0] / other[0] for one, other in zip(times, base, strict=True)]).median
        both = spread([sum(one) / sum(other) for one, other in zip(times, base, strict=True)]).median
        print(f"| {name} | {write_ms:.0f} | {slower:.2f} | {ttft_ms:.0f} | {write_ms + ttft_ms:.0f} | {both:.2f} |")


def main() -> None:
    parser = parser_of(__doc__, threads=2)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with opened(options.model, N_CTX, options.threads) as engine:
        store = Store(engine.layout, 1 << 34)
        handover = handover_of(engine, store, options.tokens)
        two = TwoSequences(resolve_model(options.model), options.threads)
        report_steps(step_costs(two, handover, options.rounds))
        print(f"\n{len(handover.answer)} tokens of answer, {len(handover.start)} before and {len(handover.end)} behind it:\n")
        report_handovers(handovers(engine, store, two, handover, options.rounds))


if __name__ == "__main__":
    main()
