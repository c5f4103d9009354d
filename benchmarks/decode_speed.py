"""How fast relaylite decodes against a plain llama-cpp-python loop, with and without capturing hidden states.

    python benchmarks/decode_speed.py [--model FILE] [--tokens 128] [--rounds 5] [--threads 2]

Greedy, the same prompt. All ways take turns token by token, in rotating order, so that what else the machine does hits them alike;
printed are the median times of a token and their ratios, and the spread of the ratio over rounds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from llama_cpp import llama_cpp as lc
from opened import in_turn, opened, parser_of, plain_context, prefilled

from relaylite.bench.statistics import spread
from relaylite.engine.engine import Engine
from relaylite.gguf.catalog import resolve_model
from relaylite.metrics import Stopwatch
from relaylite.prompt.builder import PromptBuilder
from relaylite.prompt.messages import Message, Text
from relaylite.sampling import Sampling

N_CTX = 2048
TEXT = "Write a long story about a lighthouse keeper who counts the ships that pass, one by one, and writes down each of them."
PLAIN = "llama-cpp-python"


class PlainLoop:
    """A bare loop of llama-cpp-python's functions with the same settings."""

    def __init__(self, path: Path, n_threads: int) -> None:
        self._model, self._context = plain_context(path, N_CTX, n_threads)
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

    def __init__(self, engine: Engine, *, captures: bool) -> None:
        self._engine = engine
        self._captures: dict[str, str] | None = None if captures else {}

    def answer(self, prompt: list[int]) -> Iterator[bytes]:
        prefilled(self._engine, prompt, captures=self._captures)
        for delta in self._engine.generate(Sampling(max_tokens=-1)):
            yield delta.text.encode()


def token_ms(answer: Iterator[bytes]) -> float:
    watch = Stopwatch()
    if next(answer, None) is None:
        raise SystemExit("the model stopped; give fewer --tokens")
    return watch.ms()


def times_of(ways: dict[str, PlainLoop | Relaylite], prompt: list[int], n_tokens: int) -> dict[str, list[float]]:
    """Milliseconds of each token after the first, by way."""
    answers = {name: way.answer(prompt) for name, way in ways.items()}
    for answer in answers.values():
        token_ms(answer)
    return in_turn({name: partial(token_ms, answer) for name, answer in answers.items()}, n_tokens - 1)


def report(rounds: list[dict[str, list[float]]]) -> None:
    print(f"{'':<22}{'ms/token':>9}{'speed against plain':>21}  quartiles over rounds")
    base = spread([ms for times in rounds for ms in times[PLAIN]]).median
    for name in rounds[0]:
        median = spread([ms for times in rounds for ms in times[name]]).median
        ratio = spread([spread(times[PLAIN]).median / spread(times[name]).median for times in rounds])
        print(f"{name:<22}{median:>9.2f}{base / median:>21.3f}  {ratio.q1:.3f}–{ratio.q3:.3f}")


def main() -> None:
    parser = parser_of(__doc__, threads=2)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with opened(options.model, N_CTX, options.threads) as plain, opened(options.model, N_CTX, options.threads) as capturing:
        prompt = PromptBuilder(plain.template, plain.tokenizer).build([Message("user", (Text(TEXT),))]).tokens.tolist()
        ways: dict[str, PlainLoop | Relaylite] = {
            PLAIN: PlainLoop(resolve_model(options.model), options.threads),
            "relaylite": Relaylite(plain, captures=False),
            "relaylite, capturing": Relaylite(capturing, captures=True),
        }
        times_of(ways, prompt, 8)  # to warm up
        report([times_of(ways, prompt, options.tokens) for _ in range(options.rounds)])


if __name__ == "__main__":
    main()
