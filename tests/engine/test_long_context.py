"""32,768 relayed tokens: found in one piece, placed in their order, turned like few. How that scales: benchmarks/long_context.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.live_engine import LiveEngine, Taken, opened, plan_of
from support.tiny_models import write_model

from relaylite.reuse.plan import Kind
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import NAIVE, RELAY
from relaylite.reuse.rows import Rows
from relaylite.store import Store

N = 32768
BEFORE = 64


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveEngine]:
    path: Path = write_model(tmp_path_factory.mktemp("m") / "m.gguf", "llama", n_layer=2, metadata={"llama.context_length": 2 * N})
    with opened(path, n_ctx=N + 256) as live:
        yield live


def random_rows(live: LiveEngine, n: int, seed: int = 0) -> Rows:
    """Small finite numbers in every row, and no captured states."""
    layout = live.engine.layout
    data = np.random.default_rng(seed).integers(0, 60, n * layout.token_bytes).astype(np.uint8)
    return Rows(np.array(live.tokens(n, seed), np.int32), 0, 0, data, layout)


def test_a_long_text_is_one_span_wherever_it_stands(live: LiveEngine) -> None:
    rows, store = random_rows(live, N), Store(live.engine.layout, 1 << 30)
    for seed in range(1, 5):
        store.put(random_rows(live, 2000, seed))
    store.put(rows)
    prompt = live.tokens(BEFORE, 9) + rows.tokens.tolist() + live.tokens(16, 8)
    for policy in (NAIVE, RELAY):
        plan = make_plan(prompt, store, policy)
        assert [(s.kind, s.start, s.end) for s in plan.segments] == [
            (Kind.NEW, 0, BEFORE), (Kind.SPAN, BEFORE, BEFORE + N), (Kind.NEW, BEFORE + N, len(prompt))
        ]  # fmt: skip


def test_rows_of_a_long_text_are_placed_and_turned_like_those_of_a_short_one(live: LiveEngine) -> None:
    rows = random_rows(live, N)
    placed = live.rows(plan_of(NAIVE, live.tokens(BEFORE, 9), Taken(rows), live.tokens(16, 8)))
    assert placed.tokens[BEFORE : BEFORE + N].tolist() == rows.tokens.tolist() and len(placed) == BEFORE + N + 16
    for layer in range(live.n_layer):
        assert np.array_equal(placed.v(layer)[BEFORE : BEFORE + N], rows.v(layer))
    for first in (0, 511, 20_000, N - 100):
        some = replace(rows.slice(first, first + 100), position=0)  # as far to go as when all are placed
        alone = live.rows(plan_of(NAIVE, live.tokens(BEFORE, 9), Taken(some), live.tokens(16, 8)))
        for layer in range(live.n_layer):
            assert np.array_equal(placed.k(layer)[BEFORE + first :][:100], alone.k(layer)[BEFORE:][:100])
            assert not np.array_equal(placed.k(layer)[BEFORE + first :][:100], some.k(layer))


def test_the_context_foretold_for_so_many_tokens_is_the_one_taken(live: LiveEngine) -> None:
    memory = live.engine.memory()
    assert memory.kv_bytes == live.engine.info.n_ctx * live.engine.layout.token_bytes
    assert memory == live.engine.forecast(live.engine.info.n_ctx)
