"""How fast relaylite decodes against a plain llama-cpp-python loop, with and without capturing hidden states.

    python benchmarks/decode_speed.py [--model FILE] [--tokens 128] [--rounds 9] [--threads 2]

Greedy, the same prompt, in turn and in rotating order; prints the median speed of each and the median of the paired ratios.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from llama_cpp import llama_cpp as lc

from relaylite import native
from relaylite.bench.statistics import spread
from relaylite.catalog import resolve_model
from relaylite.engine import Engine, EngineOptions
from relaylite.messages import Message, Text
from relaylite.planner import make_plan
from relaylite.policies import FULL
from relaylite.prompt import PromptBuilder
from relaylite.sampling import Sampling
from relaylite.store import Store

N_CTX = 2048
TEXT = "Write a long story about a lighthouse keeper who counts the ships that pass, one by one, and writes down each of them."


def plain(path: Path, n_threads: int, prompt: list[int], n_tokens: int) -> Callable[[], float]:
    """Seconds for the tokens after the first, by a bare loop of llama-cpp-python's functions with the same settings."""
    of_model, of_context = lc.llama_model_default_params(), lc.llama_context_default_params()
    of_model.use_extra_bufts = native.extra_buffers_work()
    of_context.n_ctx, of_context.n_batch, of_context.n_ubatch = N_CTX, 512, 512
    of_context.n_threads = of_context.n_threads_batch = n_threads
    of_context.flash_attn_type = lc.LLAMA_FLASH_ATTN_TYPE_ENABLED
    context = lc.llama_init_from_model(lc.llama_model_load_from_file(str(path).encode(), of_model), of_context)
    sampler = lc.llama_sampler_init_greedy()

    def next_token(tokens: list[int]) -> int:
        ids = (lc.llama_token * len(tokens))(*tokens)  # the batch holds a pointer to it
        if lc.llama_decode(context, lc.llama_batch_get_one(ids, len(tokens))) != 0:
            raise SystemExit("llama.cpp could not decode")
        return int(lc.llama_sampler_sample(sampler, context, -1))

    def run() -> float:
        lc.llama_memory_clear(lc.llama_get_memory(context), True)
        token = next_token(prompt)
        started = time.perf_counter()
        for _ in range(n_tokens - 1):
            token = next_token([token])
        return time.perf_counter() - started

    return run


def ours(engine: Engine, prompt: list[int], n_tokens: int, *, captures: bool) -> Callable[[], float]:
    """The same by `Engine.generate`."""
    plan = make_plan(prompt, Store(engine.layout, 0), FULL)
    profile = engine.profile

    def run() -> float:
        engine.use(profile, captures=None if captures else {})
        engine.prefill(plan, lambda _: None)
        deltas = engine.generate(Sampling(max_tokens=n_tokens))
        next(deltas)
        started = time.perf_counter()
        for _ in deltas:
            pass
        if len(engine.answer_tokens) < n_tokens:
            raise SystemExit(f"the model stopped after {len(engine.answer_tokens)} tokens; give fewer --tokens")
        return time.perf_counter() - started

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()

    path = resolve_model(options.model)
    engine = Engine.open(path, EngineOptions(n_ctx=N_CTX, n_threads=options.threads))
    prompt = PromptBuilder(engine.template, engine.tokenizer).build([Message("user", (Text(TEXT),))]).tokens.tolist()
    ways = {
        "llama-cpp-python": plain(path, options.threads, prompt, options.tokens),
        "relaylite": ours(engine, prompt, options.tokens, captures=False),
        "relaylite, capturing": ours(engine, prompt, options.tokens, captures=True),
    }
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for run in ways.values():  # once to warm up
        run()
    names = list(ways)
    for number in range(options.rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            spent[name].append(ways[name]())
    base = spent["llama-cpp-python"]
    print(f"{'':<22}{'tokens/s':>9}{'against plain':>15}  quartiles")
    for name, seconds in spent.items():
        ratio = spread([b / s for b, s in zip(base, seconds, strict=True)])
        speed = (options.tokens - 1) / spread(seconds).median
        print(f"{name:<22}{speed:>9.1f}{ratio.median:>15.3f}  {ratio.q1:.3f}–{ratio.q3:.3f}")
    engine.close()


if __name__ == "__main__":
    main()
