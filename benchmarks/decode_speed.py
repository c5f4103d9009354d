"""How fast relaylite decodes against a plain llama-cpp-python loop, with and without capturing hidden states.

    python benchmarks/decode_speed.py [--model FILE] [--tokens 128] [--rounds 5] [--threads 2]

Greedy, the same prompt. All ways take turns token by token, in rotating order, so that what else the machine does hits them alike;
printed are the median times of a token and their ratios, and the spread of the ratio over rounds.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Iterator
from pathlib import Path

from llama_cpp import llama_cpp as lc

from relaylite.bench.statistics import spread
from relaylite.engine import native
from relaylite.engine.engine import Engine, EngineOptions
from relaylite.gguf.catalog import resolve_model
from relaylite.prompt.builder import PromptBuilder
from relaylite.prompt.messages import Message, Text
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import FULL
from relaylite.sampling import Sampling
from relaylite.store import Store

N_CTX = 2048
TEXT = "Write a long story about a lighthouse keeper who counts the ships that pass, one by one, and writes down each of them."
PLAIN = "llama-cpp-python"


class PlainLoop:
    """A bare loop of llama-cpp-python's functions with the same settings."""

    def __init__(self, path: Path, n_threads: int) -> None:
        of_model, of_context = lc.llama_model_default_params(), lc.llama_context_default_params()
        of_model.use_extra_bufts = native.extra_buffers_work()
        of_context.n_ctx, of_context.n_batch, of_context.n_ubatch = N_CTX, 512, 512
        of_context.n_threads = of_context.n_threads_batch = n_threads
        of_context.flash_attn_type = lc.LLAMA_FLASH_ATTN_TYPE_ENABLED
        self._model = lc.llama_model_load_from_file(str(path).encode(), of_model)
        self._context = lc.llama_init_from_model(self._model, of_context)
        self._vocab = lc.llama_model_get_vocab(self._model)
        self._sampler = lc.llama_sampler_init_greedy()

    def answer(self, prompt: list[int]) -> Iterator[bytes]:
        """The texts of the tokens, without end."""
        lc.llama_memory_clear(lc.llama_get_memory(self._context), True)
        tokens, piece = prompt, ctypes.create_string_buffer(64)
        while True:
            ids = (lc.llama_token * len(tokens))(*tokens)  # the batch holds a pointer to it
            if lc.llama_decode(self._context, lc.llama_batch_get_one(ids, len(tokens))) != 0:
                raise SystemExit("llama.cpp could not decode")
            tokens = [int(lc.llama_sampler_sample(self._sampler, self._context, -1))]
            if lc.llama_vocab_is_eog(self._vocab, tokens[0]):
                return
            yield piece.raw[: lc.llama_token_to_piece(self._vocab, tokens[0], piece, len(piece), 0, False)]


class Relaylite:
    """The same by `Engine.generate`."""

    def __init__(self, path: Path, n_threads: int, *, captures: bool) -> None:
        self.engine = Engine.open(path, EngineOptions(n_ctx=N_CTX, n_threads=n_threads))
        if not captures:
            self.engine.use(self.engine.profile, captures={})

    def answer(self, prompt: list[int]) -> Iterator[bytes]:
        self.engine.prefill(make_plan(prompt, Store(self.engine.layout, 0), FULL), lambda _: None)
        for delta in self.engine.generate(Sampling(max_tokens=-1)):
            yield delta.text.encode()


def token_seconds(ways: dict[str, PlainLoop | Relaylite], prompt: list[int], n_tokens: int) -> dict[str, list[float]]:
    """Seconds of each token after the first, by way."""
    answers = {name: way.answer(prompt) for name, way in ways.items()}
    for answer in answers.values():
        next(answer)
    spent: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for number in range(n_tokens - 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            started = time.perf_counter()
            if next(answers[name], None) is None:
                raise SystemExit(f"the model stopped after {number + 1} tokens; give fewer --tokens")
            spent[name].append(time.perf_counter() - started)
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()

    path = resolve_model(options.model)
    capturing = Relaylite(path, options.threads, captures=True)
    builder = PromptBuilder(capturing.engine.template, capturing.engine.tokenizer)
    prompt = builder.build([Message("user", (Text(TEXT),))]).tokens.tolist()
    ways = {
        PLAIN: PlainLoop(path, options.threads),
        "relaylite": Relaylite(path, options.threads, captures=False),
        "relaylite, capturing": capturing,
    }
    token_seconds(ways, prompt, 8)  # to warm up
    rounds = [token_seconds(ways, prompt, options.tokens) for _ in range(options.rounds)]
    print(f"{'':<22}{'ms/token':>9}{'speed against plain':>21}  quartiles over rounds")
    base = spread([seconds for spent in rounds for seconds in spent[PLAIN]]).median
    for name in ways:
        median = spread([seconds for spent in rounds for seconds in spent[name]]).median
        ratio = spread([spread(spent[PLAIN]).median / spread(spent[name]).median for spent in rounds])
        print(f"{name:<22}{median * 1e3:>9.2f}{base / median:>21.3f}  {ratio.q1:.3f}–{ratio.q3:.3f}")


if __name__ == "__main__":
    main()
