"""K rows that were moved are the rows that the model would have written there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from support.live_model import LiveModel, Part, opened
from support.numpy_rope import ROPES, Rope
from support.tiny_models import write_model

from relaylite.errors import NativeError

F32 = npt.NDArray[np.float32]

DELTAS = (1, -7, 100, -100, 3000)


@pytest.fixture(scope="module", params=ROPES)
def wide(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveModel, Rope]]:
    """A model with an F32 cache, so that rounding does not hide an error."""
    path = write_model(tmp_path_factory.mktemp("models") / "m.gguf", request.param)
    with opened(path, type_k="f32", type_v="f32") as live:
        yield live, ROPES[request.param]


def keys(live: LiveModel, il: int) -> F32:
    return live.live_rows().k(il).view(np.float32)


def test_a_turn_is_what_numpy_says(wide: tuple[LiveModel, Rope]) -> None:
    live, rope = wide
    rows = live.decoded_rows(live.tokens(30))[0]
    for delta in DELTAS:
        live.cache.truncate(0)
        live.append([Part(30, rows, delta=delta)])
        for il in range(live.n_layer):
            before = rows.k(il).view(np.float32)
            expected = rope.turn(before, delta)
            assert np.abs(keys(live, il) - expected).max() < 2e-4 * np.abs(before).max()
            assert np.abs(before - expected).max() > 0.1


def test_turned_rows_of_layer_0_are_those_that_a_decode_writes_there(wide: tuple[LiveModel, Rope]) -> None:
    """In layer 0 a row depends on its token and position alone."""
    live, _ = wide
    tokens = live.tokens(30)
    rows = live.decoded_rows(tokens)[0]
    moved = live.decoded_rows(np.concatenate([live.tokens(50, seed=9), tokens]))[0]
    live.append([Part(30, rows, delta=50)])
    assert np.abs(keys(live, 0) - moved.k(0).view(np.float32)[50:]).max() < 1e-4
    assert np.abs(moved.v(0).view(np.float32)[50:] - rows.v(0).view(np.float32)).max() < 1e-5


def test_a_then_b_is_a_plus_b(wide: tuple[LiveModel, Rope]) -> None:
    live, _ = wide
    rows = live.decoded_rows(live.tokens(30))[0]
    live.append([Part(30, rows, delta=57)])
    live.cache.rotate(0, 30, -21)
    twice = [keys(live, il) for il in range(live.n_layer)]
    live.cache.truncate(0)
    live.append([Part(30, rows, delta=36)])
    for il in range(live.n_layer):
        assert np.abs(twice[il] - keys(live, il)).max() < 1e-4


def test_there_and_back_keeps_the_length_of_every_row(wide: tuple[LiveModel, Rope]) -> None:
    """A magnitude factor (YaRN, longrope) must not be applied once more with each rotation."""
    live, _ = wide
    rows = live.decoded_rows(live.tokens(30))[0]
    live.append([Part(30, rows)])
    for _ in range(20):
        live.cache.rotate(0, 30, 11)
    for il in range(live.n_layer):
        before, after = rows.k(il).view(np.float32), keys(live, il)
        assert np.allclose(np.linalg.norm(after, axis=1), np.linalg.norm(before, axis=1), rtol=1e-4)


def test_rotation_by_0_changes_nothing(tiny: LiveModel) -> None:
    rows = tiny.decoded_rows(tiny.tokens(30))[0]
    tiny.append([Part(30, rows, delta=0)])
    tiny.cache.rotate(0, 30, 0)
    assert np.array_equal(tiny.live_rows().data, rows.data)


def test_rotation_touches_its_positions_alone(tiny: LiveModel) -> None:
    rows = tiny.decoded_rows(tiny.tokens(30))[0]
    tiny.append([Part(30, rows)])
    tiny.cache.rotate(10, 20, 5)
    tiny.cache.rotate(12, 12, 5)
    back = tiny.live_rows()
    for il in range(tiny.n_layer):
        is_same = (back.k(il) == rows.k(il)).all(axis=1)
        assert np.array_equal(np.flatnonzero(~is_same), np.arange(10, 20))
        assert np.array_equal(back.v(il), rows.v(il))


def test_positions_that_cannot_be_turned_are_refused(tiny: LiveModel) -> None:
    tiny.append([Part(30, tiny.random_rows(30))])
    for start, end in ((-1, 5), (0, 31), (6, 5), (31, 31)):
        with pytest.raises(NativeError, match="positions outside the live sequence"):
            tiny.cache.rotate(start, end, 1)


def test_half_precision_turns_within_its_rounding(tmp_path: Path) -> None:
    rope = ROPES["qwen2"]
    with opened(write_model(tmp_path / "m.gguf", "qwen2")) as live:
        rows = live.decoded_rows(live.tokens(30))[0]
        live.append([Part(30, rows, delta=400)])
        for il in range(live.n_layer):
            before = rows.k(il).view(np.float16)
            after = live.live_rows().k(il).view(np.float16)
            assert np.abs(after - rope.turn(before, 400)).max() < 2**-10 * np.abs(before).max()
