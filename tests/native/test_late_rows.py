"""Rows that are written layer by layer into waiting slots equal those that an append places at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.live_model import LiveModel, Part, opened
from support.tiny_models import write_model

from relaylite.errors import Cancelled, NativeError


@pytest.fixture(
    scope="module", params=[("llama", "f16"), ("llama", "f32"), ("llama", "q8_0"), ("llama", "q4_0"), ("gemma3", "f16")], ids="-".join
)
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveModel]:
    """Caches that are rotated in place, through F32, and through a Hadamard matrix. Gemma 3 has a sliding window and another RoPE in it."""
    architecture, kv_type = request.param
    path = write_model(tmp_path_factory.mktemp("models") / "m.gguf", architecture, n_layer=6)
    with opened(path, type_k=kv_type, type_v=kv_type) as live:
        yield live


def placements(live: LiveModel) -> list[Part]:
    """Several segments, moved by different deltas and not at all. Between them are slots that nobody fills here."""
    a, b = live.decoded_rows(live.tokens(40, 1))[0], live.decoded_rows(live.tokens(70, 2))[0]
    return [Part(40, a), Part(5), Part(50, b, first=20, delta=25), Part(7, b), Part(10, a, first=3, delta=-3)]


@pytest.mark.parametrize("step", [1, 2, 5, 6])
def test_layer_by_layer_is_at_once(live: LiveModel, step: int) -> None:
    parts = placements(live)
    live.cache.truncate(0)
    live.append(parts)
    expected = live.live_rows().data
    live.cache.truncate(0)
    live.append([Part(part.n) for part in parts])
    assert not np.array_equal(live.live_rows().data, expected)
    for first in range(0, live.n_layer, step):
        live.write(0, parts, range(first, min(first + step, live.n_layer)))
    assert np.array_equal(live.live_rows().data, expected)


def test_only_the_named_layers_and_cells_are_written(live: LiveModel) -> None:
    rows = live.decoded_rows(live.tokens(30))[0]
    live.cache.truncate(0)
    live.append([Part(30)])
    before = live.live_rows()
    live.write(8, [Part(4, rows), Part(6), Part(5, rows, first=20, delta=-2)], range(2, 4))
    after = live.live_rows()
    is_written = np.isin(np.arange(30), [*range(8, 12), *range(18, 23)])
    for il in range(live.n_layer):
        for old, new in ((before.k(il), after.k(il)), (before.v(il), after.v(il))):
            changed = (old != new).any(axis=1)
            assert np.array_equal(changed, is_written & (il in (2, 3)))


def test_a_stopped_write_says_so(tiny: LiveModel) -> None:
    rows = tiny.random_rows(20)
    tiny.append([Part(20)])
    tiny.stop.set(True)
    with pytest.raises(Cancelled):
        tiny.write(0, [Part(20, rows)], range(tiny.n_layer))
    tiny.stop.set(False)
    tiny.write(0, [Part(20, rows)], range(tiny.n_layer))
    assert np.array_equal(tiny.live_rows().data, rows.data)


def test_a_refused_write_changes_nothing(tiny: LiveModel) -> None:
    rows, others = tiny.random_rows(20), tiny.random_rows(20, seed=1)
    tiny.append([Part(20, rows)])
    one = [Part(1, others)]
    for start, parts, layers in (
        (-1, one, range(1)), (20, one, range(1)), (0, [Part(21)], range(1)), (0, [], range(1)), (0, [Part(0, others)], range(1)),
        (0, [Part(2, others, first=19)], range(1)), (0, one, range(-1, 1)), (0, one, range(tiny.n_layer + 1)), (0, one, range(2, 1)),
    ):  # fmt: skip
        with pytest.raises(NativeError):
            tiny.write(start, parts, layers)
    assert np.array_equal(tiny.live_rows().data, rows.data)


def test_rows_that_cannot_be_moved_are_not(tmp_path: Path) -> None:
    """Without RoPE a row belongs to its position."""
    with opened(write_model(tmp_path / "m.gguf", "gpt2")) as live:
        rows = live.random_rows(8)
        live.append([Part(8)])
        with pytest.raises(NativeError, match="cannot be moved"):
            live.write(0, [Part(8, rows, delta=1)], range(live.n_layer))
        live.write(0, [Part(8, rows)], range(live.n_layer))
        assert np.array_equal(live.live_rows().data, rows.data)
