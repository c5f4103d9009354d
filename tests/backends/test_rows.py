"""Rows and layers on every device at hand: read, placed, moved, recomputed and captured as on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.live_model import LiveModel, Part, opened
from support.places import Place
from support.tiny_models import write_model

from relaylite.engine import self_check
from relaylite.engine.native import F32
from relaylite.errors import Cancelled
from relaylite.reuse.row_numbers import values
from relaylite.reuse.rows import Rows

N = 40
N_LAYER = {"tiny": 4, "default": 30}
CLOSE = 5e-3  # of the norm; a wrong graph is off by 0.1 and more
WHERE = np.arange(N, dtype=np.int32)


@pytest.fixture(scope="module", params=N_LAYER)
def live(
    request: pytest.FixtureRequest, place: Place, default_model_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveModel]:
    n_layer = N_LAYER[request.param]
    path = default_model_path
    if request.param == "tiny":
        path = write_model(tmp_path_factory.mktemp("models") / "m.gguf", "llama", n_layer=n_layer)
    with place.of_model(n_layer) as options, opened(path, **options) as live:
        yield live


@pytest.fixture(autouse=True)
def _empty(live: LiveModel) -> None:
    live.capture.watch({})
    live.cache.truncate(0)


def assert_close(got: F32, expected: F32, place: Place, what: str = "") -> None:
    if place.is_bitwise:
        assert np.array_equal(got, expected), what
    assert np.linalg.norm(got - expected) <= CLOSE * np.linalg.norm(expected), what


def assert_close_rows(live: LiveModel, got: Rows, expected: Rows, place: Place) -> None:
    for il in range(live.n_layer):
        for a, b, kv_type in ((got.k(il), expected.k(il), live.cache.info.type_k), (got.v(il), expected.v(il), live.cache.info.type_v)):
            assert_close(values(a, kv_type), values(b, kv_type), place, f"layer {il}")


def test_attention_is_flash_attention_and_the_model_relays(live: LiveModel) -> None:
    assert live.cache.refusal == "" and all(layer.n_attn for layer in live.cache.layers)
    assert self_check.run(live.cache, live.context) == ""


def test_slices_are_decodes(live: LiveModel, place: Place) -> None:
    tokens = live.tokens(N)
    rows, logits = live.decoded_rows(tokens)
    for cut in sorted({1, live.n_layer // 2, live.n_layer - 1}):
        live.cache.truncate(0)
        live.append([Part(N)])
        below = live.cache.slice((0, cut), WHERE, tokens=tokens, want=("hidden",))
        above = live.cache.slice((cut, live.n_layer), WHERE, hidden=below.hidden, want=("logits",))
        assert above.logits is not None
        assert_close(above.logits, logits, place, f"cut at {cut}")
        assert_close_rows(live, live.live_rows(), rows, place)


def test_rows_that_were_placed_read_back_and_decoding_goes_on(live: LiveModel, place: Place) -> None:
    tokens = live.tokens(N + 1)
    live.decode(tokens[:N])
    rows = live.live_rows()
    expected = live.decode(tokens[N:])
    live.cache.truncate(0)
    live.append([Part(10, rows), Part(N - 10, rows, first=10)])
    assert np.array_equal(live.live_rows().data, rows.data)
    assert_close(live.decode(tokens[N:]), expected, place)


def test_moved_rows_are_what_the_model_writes_there(live: LiveModel) -> None:
    """K of layer 0 knows its token and its position alone; V knows nothing of positions."""
    tokens, shift = live.tokens(N), 9
    rows, _ = live.decoded_rows(tokens)
    live.append([Part(shift), Part(N, rows, delta=shift)])
    moved = live.rows_of(live.cache.read(shift, shift + N))
    live.cache.slice((0, 0), WHERE + shift, tokens=tokens, write_end=1)
    placed = live.rows_of(live.cache.read(shift, shift + N))
    a, b = (values(of.k(0), live.cache.info.type_k) for of in (moved, placed))
    assert np.linalg.norm(a - b) < CLOSE * np.linalg.norm(b)
    still = values(rows.k(0), live.cache.info.type_k)
    assert np.linalg.norm(still - b) > 0.1 * np.linalg.norm(b)
    assert np.array_equal(moved.v(live.n_layer - 1), rows.v(live.n_layer - 1))


def test_a_stop_ends_slices_wherever_they_run(live: LiveModel, place: Place) -> None:
    """Devices without an abort callback run a graph to its end, but begin none."""
    tokens, end = live.tokens(N), live.n_layer - 1
    rows, _ = live.decoded_rows(tokens)
    live.append([Part(N, rows)])
    hidden = live.cache.slice((0, end - 1), WHERE, tokens=tokens, write_end=0, want=("hidden",)).hidden
    live.stop.set(True)
    try:
        with pytest.raises(Cancelled):
            live.cache.slice((end - 1, end), WHERE, hidden=hidden, write_end=end)
    finally:
        live.stop.set(False)
    live.cache.slice((end - 1, end), WHERE, hidden=hidden, write_end=end)
    assert_close_rows(live, live.live_rows(), rows, place)


def test_what_is_captured_is_what_slices_compute(live: LiveModel, place: Place) -> None:
    tokens, info = live.tokens(N), live.cache.info
    inner = sorted({1, live.n_layer // 2, live.n_layer - 2})
    live.capture.watch({**{f"l_out-{il - 1}": info.n_embd for il in inner}, **{f"kqv_out-{il}": info.n_attn for il in inner}})
    live.decode(tokens)
    for end in inner:
        live.cache.truncate(0)
        live.append([Part(N)])
        got = live.cache.slice((0, end), WHERE, tokens=tokens, write_end=end + 1, want=("hidden", "attention"))
        assert got.hidden is not None and got.attention is not None
        for mine, node in ((got.hidden, f"l_out-{end - 1}"), (got.attention, f"kqv_out-{end}")):
            theirs = live.capture.read(node, 0, N).astype(np.float32)
            assert_close(mine.astype(np.float16).astype(np.float32), theirs, place, node)
