"""Rows lie where the segments say: placing, reading, truncating, and that slot i holds position i."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.live_model import LiveModel, Part, opened

from relaylite.errors import NativeError
from relaylite.reuse.plan import Kind, Segment
from relaylite.reuse.rows import Rows


def rows_at(rows: Rows, position: int) -> list[bytes]:
    """K and V of one token in every layer."""
    return [part(il)[position].tobytes() for il in range(rows.layout.n_layer) for part in (rows.k, rows.v)]


def test_rows_read_back_as_written_in_every_layer(tiny: LiveModel) -> None:
    rows = tiny.random_rows(40)
    tiny.append([Part(40, rows)])
    back = tiny.live_rows()
    for il in range(tiny.n_layer):
        assert np.array_equal(back.k(il), rows.k(il)) and np.array_equal(back.v(il), rows.v(il))


def test_every_segment_lands_behind_the_one_before(tiny: LiveModel) -> None:
    a, b = tiny.random_rows(50, seed=1), tiny.random_rows(30, seed=2)
    tiny.append([Part(10, a, first=5), Part(1, b, first=29), Part(7, a, first=43)])
    tiny.append([Part(30, b)])
    where = [(a, 5 + i) for i in range(10)] + [(b, 29)] + [(a, 43 + i) for i in range(7)] + [(b, i) for i in range(30)]
    back = tiny.live_rows()
    assert len(tiny.cache) == len(where)
    for position, (source, i) in enumerate(where):
        assert rows_at(back, position) == rows_at(source, i), f"position {position}"


def test_a_delta_rotates_k_of_its_segment_alone(tiny: LiveModel) -> None:
    rows = tiny.decoded_rows(tiny.tokens(20))[0]
    tiny.append([Part(20, rows), Part(20, rows, delta=20), Part(20, rows)])
    back = tiny.live_rows()
    for il in range(tiny.n_layer):
        assert np.array_equal(back.k(il)[:20], rows.k(il)) and np.array_equal(back.k(il)[40:], rows.k(il))
        assert not (back.k(il)[20:40] == rows.k(il)).all(axis=1).any()
        assert all(np.array_equal(back.v(il)[start : start + 20], rows.v(il)) for start in (0, 20, 40))


def test_appending_and_decoding_take_turns(tiny: LiveModel) -> None:
    rows = tiny.random_rows(9)
    tokens = tiny.tokens(14)
    tiny.decode(tokens[:6])
    tiny.append([Part(9, rows)])
    tiny.decode(tokens[6:13])
    tiny.append([Part(4, rows, first=2)])
    tiny.decode(tokens[13:])
    assert len(tiny.cache) == 6 + 9 + 7 + 4 + 1
    back = tiny.live_rows()
    assert [rows_at(back, 6 + i) for i in range(9)] == [rows_at(rows, i) for i in range(9)]
    assert [rows_at(back, 22 + i) for i in range(4)] == [rows_at(rows, 2 + i) for i in range(4)]


def test_decoding_behind_placed_rows_is_decoding_behind_decoded_ones(tiny: LiveModel) -> None:
    tokens = tiny.tokens(60)
    tiny.decode(tokens[:40])
    expected = tiny.decode(tokens[40:])
    rows = tiny.live_rows()
    tiny.cache.truncate(0)
    tiny.append([Part(25, rows), Part(15, rows, first=25)])
    assert np.array_equal(tiny.decode(tokens[40:]), expected)
    assert np.array_equal(tiny.live_rows().data, rows.data)


def test_truncating_and_appending_again(tiny: LiveModel) -> None:
    a, b = tiny.random_rows(100, seed=1), tiny.random_rows(100, seed=2)
    for keep in (99, 64, 1, 0):
        tiny.cache.truncate(0)
        tiny.append([Part(100, a)])
        tiny.cache.truncate(keep)
        assert len(tiny.cache) == keep
        tiny.append([Part(100, b)])
        back = tiny.live_rows()
        assert [rows_at(back, i) for i in range(keep)] == [rows_at(a, i) for i in range(keep)]
        assert [rows_at(back, keep + i) for i in range(100)] == [rows_at(b, i) for i in range(100)]


def test_the_cache_fills_to_its_last_slot_and_no_further(tiny: LiveModel) -> None:
    n = tiny.cache.info.n_slots
    rows = tiny.random_rows(n)
    with pytest.raises(NativeError, match=f"{n + 1} more slots do not fit: 0 of {n}"):
        tiny.append([Part(n), Part(1)])
    tiny.append([Part(n, rows)])
    assert np.array_equal(tiny.live_rows().data, rows.data)
    with pytest.raises(NativeError, match="1 more slots do not fit"):
        tiny.append([Part(1, rows)])
    assert len(tiny.cache) == n


def test_an_append_larger_than_a_piece(default_model_path: Path) -> None:
    """A long append is placed in pieces of bounded size. They join without a seam, within segments and between them."""
    with opened(default_model_path, n_ctx=4096) as live:
        n = 3500
        assert n * live.layout.token_bytes > 64 << 20
        rows = live.random_rows(n)
        live.append([Part(n - 700, rows, first=700), Part(5), Part(700, rows)])
        back = live.live_rows()
        for il in (0, live.n_layer - 1):
            for got, source in ((back.k(il), rows.k(il)), (back.v(il), rows.v(il))):
                assert np.array_equal(got[: n - 700], source[700:]) and np.array_equal(got[n - 695 :], source[:700])


def test_a_refused_append_changes_nothing(tiny: LiveModel) -> None:
    rows = tiny.random_rows(20)
    tiny.append([Part(20, rows)])
    for bad in (
        [],
        [Part(0, rows)],
        [Part(-1, rows)],
        [Part(3), Part(2, rows, first=19)],
        [Part(1, rows, first=-1)],
    ):
        with pytest.raises(NativeError):
            tiny.append(bad)
        assert np.array_equal(tiny.live_rows().data, rows.data)


def test_a_stopped_append_leaves_the_sequence_as_it_was(tiny: LiveModel) -> None:
    rows = tiny.random_rows(20)
    tiny.append([Part(20, rows)])
    tiny.stop.set(True)
    with pytest.raises(Exception, match="stopped"):
        tiny.append([Part(10, rows, delta=5)])
    tiny.stop.set(False)
    assert np.array_equal(tiny.live_rows().data, rows.data)
    tiny.append([Part(10, rows)])
    assert rows_at(tiny.live_rows(), 20) == rows_at(rows, 0)


def test_a_mark_that_no_decode_overwrites_is_a_breach(tiny: LiveModel) -> None:
    tiny.decode(tiny.tokens(10))
    tiny.cache.mark(12)
    with pytest.raises(NativeError, match="slot 12 does not hold position 12"):
        tiny.cache.check(12)
    tiny.context.decode(tiny.tokens(2), 10)
    with pytest.raises(NativeError, match="slot 12 does not hold position 12"):
        tiny.cache.check(12)
    tiny.cache.mark(12)
    tiny.context.decode(tiny.tokens(1), 12)
    tiny.cache.check(12)


def test_a_decode_into_another_slot_is_a_breach(tiny: LiveModel) -> None:
    """A foreign sequence takes the slot that comes next."""
    import llama_cpp

    rows = tiny.random_rows(8)
    tiny.append([Part(8, rows)])
    llama_cpp.llama_memory_seq_cp(tiny.context.memory, 0, 1, 0, 4)
    llama_cpp.llama_memory_seq_rm(tiny.context.memory, 0, 2, -1)
    assert len(tiny.cache) == 2
    tiny.cache.mark(2)
    tiny.context.decode(tiny.tokens(1), 2)
    with pytest.raises(NativeError, match="slot 2 does not hold position 2"):
        tiny.cache.check(2)


def test_an_append_into_other_slots_is_noticed_and_clears(tiny: LiveModel) -> None:
    import llama_cpp

    rows = tiny.random_rows(8)
    tiny.append([Part(8, rows)])
    llama_cpp.llama_memory_seq_rm(tiny.context.memory, 0, 2, 4)
    with pytest.raises(NativeError, match="does not hold position 8; the live sequence was cleared"):
        tiny.append([Part(3, rows)])
    assert len(tiny.cache) == 0
    tiny.append([Part(8, rows)])
    assert np.array_equal(tiny.live_rows().data, rows.data)


def test_segments_that_do_not_begin_where_the_sequence_ends_are_refused(tiny: LiveModel) -> None:
    """Their K would be rotated for another position than the one that they get."""
    rows = tiny.random_rows(8)
    tiny.append([Part(8, rows)])
    for segments in (
        [Segment(0, 8, Kind.SPAN, rows)],
        [Segment(9, 17, Kind.SPAN, rows)],
        [Segment(8, 12, Kind.SPAN, rows), Segment(13, 15, Kind.NEW)],
    ):
        with pytest.raises(NativeError, match="cannot be placed at"):
            tiny.cache.append(segments)
    with pytest.raises(NativeError, match="rows for position 5 cannot be placed at 4"):
        tiny.cache.write([Segment(0, 4, Kind.SPAN, rows), Segment(5, 8, Kind.SPAN, rows, 5)], range(tiny.n_layer))
    assert len(tiny.cache) == 8 and rows_at(tiny.live_rows(), 5) == rows_at(rows, 5)
