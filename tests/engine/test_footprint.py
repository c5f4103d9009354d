"""Memory is known before it is taken: per architecture, KV type and context, against what llama.cpp then counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from support.live_engine import LiveEngine, opened
from support.tiny_models import ARCHITECTURES, write_model

from relaylite.engine import footprint, llama, native
from relaylite.engine.llama import ContextOptions
from relaylite.errors import ModelError

CELL_BYTES = 2 * (12 + 8)  # at most, of a cell in a saved state: position and sequence, and places in a picture, in two caches
N_MORE = 15  # tokens; twice as many still lie in the tiny models' windows, beyond which a state leaves rows out


@contextmanager
def model_of(path: Path) -> Iterator[llama.Model]:
    llama.start()
    model = llama.Model(path, n_gpu_layers=0, use_extra_buffers=False)
    try:
        yield model
    finally:
        model.close()


@contextmanager
def context_of(model: llama.Model, options: ContextOptions) -> Iterator[llama.Context]:
    context = llama.Context(model, options)
    try:
        yield context
    finally:
        context.close()


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_what_is_foretold_is_what_is_taken(arch: str, tmp_path: Path) -> None:
    with model_of(write_model(tmp_path / "m.gguf", arch)) as model:
        for n_ctx, kv_type in ((512, "f16"), (1024, "q4_0"), (2048, "q8_0")):
            options = ContextOptions(n_ctx, 512, 1, kv_type, kv_type)
            foretold = footprint.forecast(model, options)
            with context_of(model, options) as context:
                taken = native.memory_of(context.address)
            assert foretold.kv_bytes == pytest.approx(taken.cache, rel=0.02)
            assert foretold.compute_bytes == pytest.approx(taken.compute, rel=0.02)
            assert taken.cache > 0 and taken.compute > 0


@pytest.mark.parametrize("kv_type", ["f16", "q8_0", "q4_0"])
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_token_more_takes_what_it_adds_to_the_state(arch: str, kv_type: str, tmp_path: Path) -> None:
    """Not llama.cpp's plan but the rows themselves, as it writes them to a saved state."""
    with model_of(write_model(tmp_path / "m.gguf", arch)) as model:
        options = ContextOptions(512, 128, 1, kv_type, kv_type)
        per_token = footprint.bytes_per_token(model, options)
        with context_of(model, options) as context:
            sizes = []
            for position in (0, N_MORE):
                assert context.decode(range(20, 20 + N_MORE), position) == 0
                sizes.append(context.state_bytes)
    assert 0 <= (sizes[1] - sizes[0]) / N_MORE - per_token <= CELL_BYTES


def test_an_engine_says_what_it_took_and_foretold_it(tiny: LiveEngine) -> None:
    engine = tiny.engine
    memory = engine.memory()
    assert memory == engine.forecast(engine.info.n_ctx)
    assert memory.kv_bytes == engine.info.n_ctx * engine.info.kv_bytes_per_token
    assert memory.capture_bytes == engine.info.n_ctx * 2 * sum(engine._sequence._capture.widths.values()) > 0
    twice = engine.forecast(2 * engine.info.n_ctx)
    assert (twice.kv_bytes, twice.capture_bytes) == (2 * memory.kv_bytes, 2 * memory.capture_bytes)
    assert engine.memory() == memory


@pytest.mark.parametrize("arch", ["deepseek2", "jamba", "mamba", "gemma4"])
def test_a_model_that_cannot_relay_has_its_bytes_too(arch: str, tmp_path: Path) -> None:
    with opened(write_model(tmp_path / "m.gguf", arch), n_ctx=512) as live:
        memory, info = live.engine.memory(), live.engine.info
        assert info.relay_refusal is not None and memory.capture_bytes == 0
        assert memory == live.engine.forecast(512)
        states = memory.kv_bytes - 512 * info.kv_bytes_per_token
        assert (states > 0) == (arch in ("jamba", "mamba"))
        assert (info.kv_bytes_per_token > 0) == (arch != "mamba")


def test_a_forecast_of_the_impossible_is_one_line(tiny: LiveEngine) -> None:
    options = replace(tiny.engine._computing.context_options, n_batch=0)
    with pytest.raises(ModelError, match="cannot make a context of 2048") as caught:
        footprint.forecast(tiny.engine._computing.model, options)
    assert "\n" not in str(caught.value)
