"""Real rows through the disk and back into a real context: the same cells, and never those of another model or cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.live_engine import LiveEngine, home_of_session, opened
from support.tiny_models import write_model

from relaylite.reuse.plan import Kind
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import NAIVE, PREFIX
from relaylite.store import Store

PLENTY = 1 << 30


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny.gguf", "llama", n_layer=4)


@pytest.fixture(scope="module")
def live(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveEngine]:
    with home_of_session(tmp_path_factory), opened(model) as live:
        yield live


def stores(live: LiveEngine, folder: Path) -> tuple[Store, Store]:
    """One that holds an upstream agent's rows in memory, and one that finds them on disk."""
    ours = Store(live.engine.layout, PLENTY, folder=folder)
    ours.put(live.written(n_prompt=30, n_answer=60))
    ours.flush()
    return ours, Store(live.engine.layout, 0, folder=folder)


def test_a_prefix_from_disk_is_placed_as_one_from_memory(live: LiveEngine, tmp_path: Path) -> None:
    ours, theirs = stores(live, tmp_path)
    prompt = [*live.tokens(90), 40, 41, 42]
    plans = [make_plan(prompt, store, PREFIX) for store in (ours, theirs)]
    assert [plan.count(Kind.PREFIX) for plan in plans] == [90, 90]
    of_memory, of_disk = (live.rows(plan) for plan in plans)
    np.testing.assert_array_equal(of_memory.data, of_disk.data)


def test_a_span_from_disk_is_moved_as_one_from_memory(live: LiveEngine, tmp_path: Path) -> None:
    ours, theirs = stores(live, tmp_path)
    prompt = [7, 8, 9, *live.tokens(90)[30:85], 40, 41]
    plans = [make_plan(prompt, store, NAIVE) for store in (ours, theirs)]
    assert [plan.count(Kind.SPAN) for plan in plans] == [55, 55]
    of_memory, of_disk = (live.rows(plan) for plan in plans)
    np.testing.assert_array_equal(of_memory.data, of_disk.data)


def found(live: LiveEngine, folder: Path, tokens: list[int]) -> bool:
    store = Store(live.engine.layout, PLENTY, folder=folder)
    prompt = np.array(tokens, np.int32)
    return store.prefix(prompt, exact=False) is not None or bool(store.spans(prompt, 0, 16))


def test_other_weights_and_other_kv_types_find_nothing(live: LiveEngine, model: Path, tmp_path: Path) -> None:
    stores(live, tmp_path / "store")
    tokens = live.tokens(90)
    assert found(live, tmp_path / "store", tokens)
    tuned = tmp_path / "tuned.gguf"
    content = bytearray(model.read_bytes())
    content[-64] ^= 1  # one bit of one weight: same name, same architecture, same size
    tuned.write_bytes(content)
    with opened(tuned) as other:
        assert not found(other, tmp_path / "store", tokens)
    with opened(model, kv_type="q8_0") as other:
        assert not found(other, tmp_path / "store", tokens)
    renamed = tmp_path / "renamed.gguf"
    renamed.write_bytes(model.read_bytes())
    with opened(renamed) as same:
        assert found(same, tmp_path / "store", tokens)
