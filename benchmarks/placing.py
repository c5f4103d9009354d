"""What placing and rotating relayed rows costs against computing them.

    python benchmarks/placing.py [--model FILE] [--tokens 1000] [--rounds 9] [--threads 2]

Rows of so many tokens are taken over to another position (`naive`); prints the median time of that, and of a full prefill of as many
tokens, and their ratio.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from relaylite.bench.statistics import spread
from relaylite.engine.engine import Engine, EngineOptions
from relaylite.gguf.catalog import resolve_model
from relaylite.reuse.plan import Kind
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import FULL, NAIVE
from relaylite.store import Store

SHIFT = 137  # tokens that come before in the new prompt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()

    engine = Engine.open(resolve_model(options.model), EngineOptions(n_ctx=options.tokens + 1024, n_threads=options.threads))
    random = np.random.default_rng(0).integers(100, engine.info.n_vocab - 100, options.tokens + SHIFT).astype(np.int32)
    text, before = random[: options.tokens], random[options.tokens :]
    store, empty = Store(engine.layout, 1 << 40), Store(engine.layout, 0)
    full = make_plan(text, empty, FULL)
    engine.use(engine.profile)
    engine.prefill(full, lambda _: None)
    store.put(engine.harvest("writer"))
    moved = make_plan(np.concatenate([before, text, before[:8]]), store, NAIVE)
    assert moved.count(Kind.SPAN) == options.tokens

    full_ms, place_ms = [], []
    for _ in range(options.rounds):
        engine.use(engine.profile)
        started = time.perf_counter()
        engine.prefill(full, lambda _: None)
        full_ms.append((time.perf_counter() - started) * 1e3)
        engine.use(engine.profile)
        place_ms.append(engine.prefill(moved, lambda _: None).place_ms)
    ratio = spread([place / full for place, full in zip(place_ms, full_ms, strict=True)])
    print(f"{options.tokens} tokens, {store.stats().ram_bytes / 1e6:.0f} MB of rows and states")
    print(f"full prefill      {spread(full_ms).median:8.1f} ms")
    print(f"place and rotate  {spread(place_ms).median:8.1f} ms")
    print(f"ratio             {ratio.median:8.2%}  (quartiles {ratio.q1:.2%}–{ratio.q3:.2%})")
    engine.close()


if __name__ == "__main__":
    main()
