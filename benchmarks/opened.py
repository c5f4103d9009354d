"""What the scripts here share: their options, an engine on a model and its prefills, and ways that take turns."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from llama_cpp import llama_cpp as lc

from relaylite.engine import native
from relaylite.engine.engine import Engine
from relaylite.engine.interface import Prefill
from relaylite.engine.options import EngineOptions
from relaylite.gguf.catalog import resolve_model
from relaylite.metrics import Stopwatch
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import FULL, Policy
from relaylite.reuse.rows import Tokens
from relaylite.store import Store

T = TypeVar("T")


def plain_parser_of(about: str) -> argparse.ArgumentParser:
    """A parser without options. `about` is the script's docstring."""
    return argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)


def parser_of(about: str, *, threads: int | None = None) -> argparse.ArgumentParser:
    """A parser with `--model` and `--threads`."""
    parser = plain_parser_of(about)
    parser.add_argument("--model", default="default", help="a path, or a name as in relaylite models list")
    parser.add_argument("--threads", type=int, default=threads)
    return parser


@contextmanager
def opened(model: str | Path, n_ctx: int, n_threads: int | None, **more: Any) -> Iterator[Engine]:
    """An engine on the model, closed at the end. `more`: other fields of `EngineOptions`."""
    engine = Engine.open(resolve_model(str(model)), EngineOptions(n_ctx=n_ctx, n_threads=n_threads, **more))
    try:
        yield engine
    finally:
        engine.close()


def prefilled(engine: Engine, tokens: Tokens | list[int], store: Store | None = None, policy: Policy = FULL, **more: Any) -> Prefill:
    """The prompt prefilled into an empty sequence, with what the policy takes over from the store. `more`: for `Engine.configure`."""
    engine.configure(engine.profile, **more)
    return engine.prefill(make_plan(tokens, store or Store(engine.layout, 0), policy), lambda _: None)


def random_tokens(engine: Engine, n: int) -> Tokens:
    """The same for the same vocabulary; no control tokens, which stand at its ends."""
    return np.random.default_rng(0).integers(20, engine.info.n_vocab - 20, n).astype(np.int32)


def in_turn(ways: Mapping[str, Callable[[], T]], n_rounds: int) -> dict[str, list[T]]:
    """What each way gave in each round. The order rotates, so that whatever else the machine does hits all ways alike."""
    found: dict[str, list[T]] = {name: [] for name in ways}
    names = list(ways)
    for number in range(n_rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            found[name].append(ways[name]())
    return found


def timed_ms(work: Callable[[], object]) -> float:
    watch = Stopwatch()
    work()
    return watch.ms()


def plain_context(path: Path, n_ctx: int, n_threads: int, n_sequences: int = 1) -> tuple[Any, Any]:
    """llama.cpp's own model and context, opened as relaylite opens them."""
    of_model, of_context = lc.llama_model_default_params(), lc.llama_context_default_params()
    of_model.use_extra_bufts = native.extra_buffers_work()
    of_context.n_ctx, of_context.n_batch, of_context.n_ubatch = n_ctx, 512, 512
    of_context.n_seq_max, of_context.kv_unified = n_sequences, n_sequences > 1
    of_context.n_threads = of_context.n_threads_batch = n_threads
    of_context.flash_attn_type = lc.LLAMA_FLASH_ATTN_TYPE_ENABLED
    model = lc.llama_model_load_from_file(str(path).encode(), of_model)
    return model, lc.llama_init_from_model(model, of_context)
