"""Layer slices equal llama_decode bit for bit on the same batch shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.live_model import LiveModel, Part, opened
from support.tiny_models import write_model

from relaylite.errors import Cancelled, NativeError
from relaylite.reuse.row_numbers import values
from relaylite.reuse.rows import Rows

N = 40


@pytest.fixture(params=["tiny", "default"])
def live(request: pytest.FixtureRequest) -> LiveModel:
    found: LiveModel = request.getfixturevalue(request.param)
    return found


def positions(start: int, end: int) -> np.ndarray:
    return np.arange(start, end, dtype=np.int32)


def assert_same_rows(live: LiveModel, expected: Rows) -> None:
    back = live.live_rows()
    for il in range(live.n_layer):
        assert np.array_equal(back.k(il), expected.k(il)), f"K of layer {il}"
        assert np.array_equal(back.v(il), expected.v(il)), f"V of layer {il}"


def cuts(live: LiveModel) -> list[int]:
    """Every inner layer of a small model; of the default model the outermost and two between."""
    n = live.n_layer
    return list(range(1, n)) if n < 8 else [1, n // 3, n // 2, n - 1]


def test_a_slice_of_all_layers_is_a_decode(live: LiveModel) -> None:
    tokens = live.tokens(N)
    rows, logits = live.decoded_rows(tokens)
    live.append([Part(N)])
    got = live.cache.slice((0, live.n_layer), positions(0, N), tokens=tokens, want=("logits",))
    assert np.array_equal(got.logits, logits)
    assert_same_rows(live, rows)


def test_one_token_is_a_decode(live: LiveModel) -> None:
    tokens = live.tokens(N)
    live.decode(tokens[:-1])
    prefix = live.live_rows()
    logits = live.decode(tokens[-1:])
    rows = live.live_rows()
    live.cache.truncate(0)
    live.append([Part(N - 1, prefix), Part(1)])
    got = live.cache.slice((0, live.n_layer), positions(N - 1, N), tokens=tokens[-1:], want=("logits",))
    assert np.array_equal(got.logits, logits)
    assert_same_rows(live, rows)


def test_cut_at_every_layer(live: LiveModel) -> None:
    tokens = live.tokens(N)
    rows, logits = live.decoded_rows(tokens)
    for cut in cuts(live):
        live.cache.truncate(0)
        live.append([Part(N)])
        below = live.cache.slice((0, cut), positions(0, N), tokens=tokens, want=("hidden",))
        above = live.cache.slice((cut, live.n_layer), positions(0, N), hidden=below.hidden, want=("logits",))
        assert np.array_equal(above.logits, logits), f"cut at {cut}"
        assert_same_rows(live, rows)


def test_layer_by_layer(live: LiveModel) -> None:
    tokens = live.tokens(N)
    rows, _ = live.decoded_rows(tokens)
    live.append([Part(N)])
    hidden = live.cache.slice((0, 1), positions(0, N), tokens=tokens, want=("hidden",)).hidden
    for il in range(1, live.n_layer - 1):
        hidden = live.cache.slice((il, il + 1), positions(0, N), hidden=hidden, want=("hidden",)).hidden
    live.cache.slice((live.n_layer - 1, live.n_layer), positions(0, N), hidden=hidden)
    assert_same_rows(live, rows)


def test_probes_are_what_llama_cpp_computes(live: LiveModel) -> None:
    """Hidden states and attention as captured while decoding, V of the next layer as decoded, for each cut."""
    tokens, info, inner = live.tokens(N), live.cache.info, cuts(live)
    live.capture.watch({**{f"l_out-{il - 1}": info.n_embd for il in inner}, **{f"kqv_out-{il}": info.n_attn for il in inner}})
    rows, _ = live.decoded_rows(tokens)
    for end in inner:
        live.cache.truncate(0)
        live.append([Part(N)])
        got = live.cache.slice((0, end), positions(0, N), tokens=tokens, write_end=end + 1, want=("hidden", "v", "attention"))
        assert np.array_equal(got.hidden.astype(np.float16), live.capture.read(f"l_out-{end - 1}", 0, N))
        assert np.array_equal(got.v.astype(np.float16), rows.v(end).view(np.float16))
        if end < live.n_layer - 1:  # llama.cpp drops all rows but the last before kqv_out of its last layer is asked for
            assert np.array_equal(got.attention.astype(np.float16), live.capture.read(f"kqv_out-{end}", 0, N))


def test_a_probe_of_layer_0_runs_no_layer(live: LiveModel) -> None:
    tokens = live.tokens(N)
    rows, _ = live.decoded_rows(tokens)
    live.append([Part(N)])
    got = live.cache.slice((0, 0), positions(0, N), tokens=tokens, write_end=1, want=("v", "mass"), n_probe=3)
    assert np.array_equal(got.v.astype(np.float16), rows.v(0).view(np.float16))
    back = live.live_rows()
    assert np.array_equal(back.k(0), rows.k(0)) and np.array_equal(back.v(0), rows.v(0))
    assert not np.array_equal(back.k(1), rows.k(1))


def test_nothing_is_written_unless_asked_for(live: LiveModel) -> None:
    tokens = live.tokens(N)
    rows = live.random_rows(N)
    live.append([Part(N, rows)])
    end = live.n_layer - 1
    live.cache.slice((0, end), positions(0, N), tokens=tokens, write_end=0, want=("hidden", "v"))
    assert_same_rows(live, rows)
    live.cache.slice((0, end), positions(0, N), tokens=tokens)
    back = live.live_rows()
    assert np.array_equal(back.k(end), rows.k(end)) and not np.array_equal(back.k(end - 1), rows.k(end - 1))


def test_attention_mass_is_what_the_probes_pay(live: LiveModel) -> None:
    tokens, end, n_probe = live.tokens(N), 1, 5
    live.append([Part(N)])
    mass = live.cache.slice((0, end), positions(0, N), tokens=tokens, write_end=2, n_probe=n_probe, want=("mass",)).mass
    assert mass.shape == (N,) and (mass >= 0).all()
    assert mass.sum() == pytest.approx(live.model.n_head * n_probe, rel=1e-4)
    seen_by_all = live.cache.slice((0, end), positions(0, N), tokens=tokens, n_probe=1, write_end=2, want=("mass",)).mass
    assert (mass >= seen_by_all - 1e-5).all()
    half = live.cache.slice((0, end), positions(0, N // 2), tokens=tokens[: N // 2], n_probe=n_probe, write_end=2, want=("mass",)).mass
    assert half[N // 2 :].max() == 0 and half.sum() == pytest.approx(live.model.n_head * n_probe, rel=1e-4)


def test_chunks_in_order_are_decodes_in_order(live: LiveModel) -> None:
    step, n = 30, 90
    tokens = live.tokens(n)
    rows, logits = live.decoded_rows(tokens, batch=step)
    for start in range(0, n, step):
        live.append([Part(step)])
        got = live.cache.slice((0, live.n_layer), positions(start, start + step), tokens=tokens[start : start + step], want=("logits",))
    assert np.array_equal(got.logits, logits)
    assert_same_rows(live, rows)


def test_a_subset_of_positions_takes_the_others_as_they_are(tiny: LiveModel) -> None:
    """Rows of two tokens are spoilt; recomputing these two, and no other, mends them."""
    tokens = tiny.tokens(N)
    rows, logits = tiny.decoded_rows(tokens)
    tiny.append([Part(7, rows), Part(1), Part(20, rows, first=8), Part(1), Part(11, rows, first=29)])
    where = np.array([7, 28], np.int32)
    tiny.cache.slice((0, tiny.n_layer), where, tokens=tokens[where])
    back = tiny.live_rows()
    for il in range(tiny.n_layer):
        for got, expected in ((back.k(il), rows.k(il)), (back.v(il), rows.v(il))):
            assert np.array_equal(np.delete(got, where, axis=0), np.delete(expected, where, axis=0))
            a, b = got[where].view(np.float16), expected[where].view(np.float16)
            assert np.abs(a.astype(np.float32) - b).max() < 0.02
    tiny.cache.truncate(N - 1)
    assert np.abs(tiny.decode(tokens[-1:]) - logits).max() < 0.05


def test_decoding_goes_on_behind_a_slice(live: LiveModel) -> None:
    tokens = live.tokens(N + 3)
    live.decode(tokens[:N])
    expected = [live.decode([token]) for token in tokens[N:]]
    live.cache.truncate(0)
    live.append([Part(N)])
    live.cache.slice((0, live.n_layer), positions(0, N), tokens=tokens[:N])
    for token, logits in zip(tokens[N:], expected, strict=True):
        assert np.array_equal(live.decode([token]), logits)


def test_a_slice_between_two_decodes_changes_neither(tiny: LiveModel) -> None:
    tokens = tiny.tokens(N + 2)
    tiny.decode(tokens[:N])
    first = tiny.decode(tokens[N : N + 1])
    second = tiny.decode(tokens[N + 1 :])
    tiny.cache.truncate(N)
    assert np.array_equal(tiny.decode(tokens[N : N + 1]), first)
    rows = tiny.live_rows()
    tiny.cache.slice((0, 2), positions(0, N), tokens=tokens[:N], write_end=0, want=("hidden",))
    assert_same_rows(tiny, rows)
    assert np.array_equal(tiny.decode(tokens[N + 1 :]), second)


def test_a_stop_ends_slices_and_decodes(tiny: LiveModel) -> None:
    tokens = tiny.tokens(N)
    tiny.decode(tokens)
    tiny.stop.set(True)
    with pytest.raises(Cancelled, match="stopped"):
        tiny.cache.slice((0, tiny.n_layer), positions(0, N), tokens=tokens)
    assert tiny.context.decode(tokens[:2], N) == 2
    tiny.stop.set(False)
    tiny.cache.truncate(0)
    rows, _ = tiny.decoded_rows(tokens)
    tiny.append([Part(N)])
    tiny.cache.slice((0, tiny.n_layer), positions(0, N), tokens=tokens)
    assert_same_rows(tiny, rows)


def test_two_contexts_take_turns(tiny: LiveModel, default: LiveModel) -> None:
    """Each keeps its own rows, stop flag and results."""
    mine, theirs = tiny.tokens(N), default.tokens(N)
    expected_mine, expected_theirs = tiny.decoded_rows(mine), default.decoded_rows(theirs)
    tiny.append([Part(N)])
    default.append([Part(N)])
    default.stop.set(True)
    got_mine = tiny.cache.slice((0, tiny.n_layer), positions(0, N), tokens=mine, want=("logits",)).logits
    default.stop.set(False)
    got_theirs = default.cache.slice((0, default.n_layer), positions(0, N), tokens=theirs, want=("logits",)).logits
    assert np.array_equal(got_mine, expected_mine[1]) and np.array_equal(got_theirs, expected_theirs[1])
    assert_same_rows(tiny, expected_mine[0])
    assert_same_rows(default, expected_theirs[0])


def test_two_contexts_on_one_model(tiny: LiveModel) -> None:
    tokens = tiny.tokens(N)
    rows, logits = tiny.decoded_rows(tokens)
    with opened(tiny.model.path, n_ctx=256, n_batch=64) as other:
        other.append([Part(N)])
        tiny.append([Part(N)])
        for live in (other, tiny):
            got = live.cache.slice((0, live.n_layer), positions(0, N), tokens=tokens, want=("logits",))
            assert np.array_equal(got.logits, logits)
            assert_same_rows(live, rows)


@pytest.mark.parametrize("n_batch", [2, 3, 4])
def test_batches_too_small_to_foretell_graphs(n_batch: int, tiny_path: Path) -> None:
    """Below four tokens every slice asks llama.cpp for its graph."""
    with opened(tiny_path, n_batch=n_batch) as live:
        tokens = live.tokens(n_batch * 3)
        rows, logits = live.decoded_rows(tokens)
        for start in range(0, len(tokens), n_batch):
            live.append([Part(n_batch)])
            where = positions(start, start + n_batch)
            got = live.cache.slice((0, live.n_layer), where, tokens=tokens[where], want=("logits",))
        assert np.array_equal(got.logits, logits)
        assert_same_rows(live, rows)


def test_a_batch_is_the_most_that_a_slice_takes(tiny: LiveModel) -> None:
    n = tiny.cache.info.n_batch
    tokens = tiny.tokens(n + 1)
    rows, _ = tiny.decoded_rows(tokens[:n])
    tiny.append([Part(n)])
    tiny.cache.slice((0, tiny.n_layer), positions(0, n), tokens=tokens[:n])
    assert_same_rows(tiny, rows)
    tiny.append([Part(1)])
    with pytest.raises(NativeError, match="1 to n_batch tokens"):
        tiny.cache.slice((0, tiny.n_layer), positions(0, n + 1), tokens=tokens)


@pytest.mark.parametrize("arch", ["llama", "gemma2", "gpt-oss", "bloom", "openelm"])
@pytest.mark.parametrize("kv_type", ["f16", "f32", "q8_0"])
def test_attention_by_products_is_equal_to_rounding(arch: str, kv_type: str, tmp_path: Path) -> None:
    """Soft-capping, sinks, windows, ALiBi and heads that differ by layer, written out; types that cannot be are left as they are."""
    with opened(write_model(tmp_path / "m.gguf", arch), type_k=kv_type, type_v=kv_type) as live:
        n, tokens = 100, live.tokens(100)
        rows, logits = live.decoded_rows(tokens)
        live.append([Part(n)])
        got = live.cache.slice((0, live.n_layer), positions(0, n), tokens=tokens, want=("logits",), is_bitwise=False)
        assert np.linalg.norm(got.logits - logits) < 0.01 * np.linalg.norm(logits)
        assert np.array_equal(got.logits, logits) == (kv_type == "q8_0")
        back = live.live_rows()
        for il in range(live.n_layer):
            for mine, theirs in ((back.k(il), rows.k(il)), (back.v(il), rows.v(il))):
                a, b = values(mine, live.cache.info.type_k), values(theirs, live.cache.info.type_v)
                assert np.linalg.norm(a - b) < 0.01 * np.linalg.norm(b)
        exact = live.cache.slice((0, 1), positions(0, n), tokens=tokens, write_end=1, n_probe=4, want=("attention", "mass"))
        quick = live.cache.slice(
            (0, 1), positions(0, n), tokens=tokens, write_end=1, n_probe=4, want=("attention", "mass"), is_bitwise=False
        )
        assert np.linalg.norm(quick.attention - exact.attention) < 0.01 * np.linalg.norm(exact.attention)
        assert np.abs(quick.mass - exact.mass).max() < 0.01
