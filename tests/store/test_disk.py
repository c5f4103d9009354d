"""The disk tier: what comes back after a new start, within which budget, and what goes first."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.rows_on_disk import PLENTY, TEXT, files, found, prompt, written
from support.sample_rows import CAPTURE, LAYOUT, assert_match, rows_of

from relaylite.reuse.rows import RowLayout
from relaylite.store import Store
from relaylite.store.codec import CODECS
from relaylite.store.rowfile import RowFile
from relaylite.store.worth import Foresight, Uses


def test_a_second_start_finds_prefix_spans_and_states(tmp_path):
    rows = rows_of(TEXT, n_exact=50, salt="relayed", captured=[(40, 80)], origin="plan")
    store = Store(LAYOUT, PLENTY, folder=tmp_path / "store")
    store.put(rows)
    store.close()
    again = Store(LAYOUT, PLENTY, folder=tmp_path / "store")
    match = again.prefix(prompt(TEXT), exact=False)
    assert len(match) == 80 and len(again.prefix(prompt(TEXT), exact=True)) == 50
    assert_match(match, TEXT, rows)
    quoted = [7, *TEXT[45:]]
    (span,) = again.spans(prompt(quoted), 0, 32)
    assert_match(span, quoted, rows)
    np.testing.assert_array_equal(span.rows.states[CAPTURE][span.offset : span.offset + len(span)], rows.states[CAPTURE][45:])
    assert again.stats().ram_bytes == 0


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_mix_of_starts_finds_all_that_was_put(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("mix")
    texts = data.draw(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9), min_size=1, max_size=10))
    store = Store(LAYOUT, PLENTY, folder=folder)
    for text in texts:
        store.put(rows_of(text))
        action = data.draw(st.sampled_from(["go on", "flush", "start again"]))
        if action != "go on":
            store.flush()
        if action == "start again":
            store = Store(LAYOUT, data.draw(st.sampled_from([0, 500, PLENTY])), folder=folder)
    for text in texts:
        match = store.prefix(prompt(text), exact=True)
        assert len(match) == len(text)
        assert_match(match, text, rows_of(text))


def test_nothing_is_written_twice(tmp_path):
    written(tmp_path, TEXT, [*TEXT[:40], 1, 2, 3])
    before = {path.name: path.stat().st_ino for path in files(tmp_path)}
    written(tmp_path, TEXT, [*TEXT[:40], 1, 2, 3], TEXT[:60])
    assert {path.name: path.stat().st_ino for path in files(tmp_path)} == before


def test_only_the_user_may_read(tmp_path):
    written(tmp_path / "a" / "store", TEXT)
    assert stat.S_IMODE((tmp_path / "a" / "store").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a" / "store").iterdir()} == {0o600}


def test_with_no_memory_at_all_rows_live_on_disk(tmp_path):
    store = Store(LAYOUT, 0, folder=tmp_path)
    store.put(rows_of(TEXT))
    assert_match(store.prefix(prompt(TEXT), exact=True), TEXT, rows_of(TEXT))
    assert store.stats().ram_bytes == 0


def test_rows_that_memory_has_no_room_for_go_to_disk_and_come_back(tmp_path):
    texts = [[n, *range(1000 * n, 1000 * n + 50)] for n in range(1, 9)]
    store = Store(LAYOUT, 3 * rows_of(texts[0]).n_bytes, folder=tmp_path)
    for text in texts:
        store.put(rows_of(text))
        assert store.stats().ram_bytes <= 3 * rows_of(texts[0]).n_bytes
    for text in texts:
        assert_match(store.prefix(prompt(text), exact=True), text, rows_of(text))


@pytest.mark.parametrize("budget_files", [0.5, 1.5, 3.2])
def test_the_disk_budget_holds_before_every_write(tmp_path, budget_files):
    written(tmp_path / "one", TEXT)
    (one,) = files(tmp_path / "one")
    budget = int(budget_files * one.stat().st_size)
    store = Store(LAYOUT, 0, folder=tmp_path / "store", disk_bytes=budget)
    largest = 0
    for n in range(6):
        store.put(rows_of([n, *TEXT[1:]]))
        largest = max(largest, sum(path.stat().st_size for path in files(tmp_path / "store")))
        assert largest <= budget
    assert largest == int(budget_files) * one.stat().st_size


@pytest.mark.parametrize(
    "other",
    [RowLayout(LAYOUT.k_bytes, LAYOUT.v_bytes, "another model"), RowLayout((8, 8), (8, 16), "another KV type")],
)
def test_rows_of_another_fingerprint_are_never_found_and_stay(tmp_path, other):
    written(tmp_path, TEXT)
    store = Store(other, PLENTY, folder=tmp_path)
    assert store.prefix(prompt(TEXT), exact=False) is None
    assert store.spans(prompt(TEXT), 0, 8) == []
    assert len(files(tmp_path)) == 1


def test_both_parts_of_a_file_whose_run_was_split_serve_spans(tmp_path):
    written(tmp_path, TEXT)
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    store.put(rows_of([*TEXT[:40], 1, 2, 3]))
    for part in (TEXT[:35], TEXT[42:78], TEXT[20:60]):
        (span,) = store.spans(prompt([7, *part]), 0, 32)
        assert len(span) == len(part)
        assert_match(span, [7, *part], rows_of(TEXT))


def test_rows_that_are_asked_for_stay_on_disk_and_others_go(tmp_path):
    size = files_size(tmp_path / "one", TEXT)
    store = Store(LAYOUT, 0, folder=tmp_path / "store", disk_bytes=3 * size + 100)
    for n in range(8):
        store.put(rows_of([n, *TEXT[1:]], origin="plan"))
        assert len(store.prefix(prompt([0, *TEXT[1:]]), exact=True)) == 80
    assert len(files(tmp_path / "store")) == 3


class OldIsWorthless(Foresight):
    def chance(self, uses: Uses, soon: dict[str, float]) -> float:
        return 0.0 if uses.owner == "old" else 1.0


def test_what_a_text_rests_on_is_not_given_up_for_its_own_end(tmp_path):
    size = files_size(tmp_path / "one", TEXT)
    store = Store(LAYOUT, 0, folder=tmp_path / "store", disk_bytes=2 * size + 100, foresight=OldIsWorthless())
    store.put(rows_of(TEXT, origin="old"))
    store.put(rows_of([1, *TEXT[1:]], origin="new"))
    store.put(rows_of([*TEXT, *range(70)], origin="new"))
    assert store.prefix(prompt([1, *TEXT[1:]]), exact=True) is None
    assert len(store.prefix(prompt([*TEXT, *range(70)]), exact=True)) == 150


def test_the_end_of_a_text_goes_before_what_it_rests_on(tmp_path):
    size = files_size(tmp_path / "one", TEXT)
    store = Store(LAYOUT, 0, folder=tmp_path / "store", disk_bytes=2 * size + 100, foresight=OldIsWorthless())
    store.put(rows_of(TEXT, origin="old"))
    store.put(rows_of([*TEXT, *range(70)], origin="new"))
    store.put(rows_of([1, *TEXT[1:]], origin="new"))
    assert len(store.prefix(prompt([*TEXT, *range(70)]), exact=True)) == 80
    assert len(store.prefix(prompt([1, *TEXT[1:]]), exact=True)) == 80


def files_size(folder: Path, text: list[int]) -> int:
    written(folder, text)
    return sum(path.stat().st_size for path in files(folder))


def test_rows_handed_out_outlive_their_file(tmp_path):
    written(tmp_path, TEXT)
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    match = store.prefix(prompt(TEXT), exact=True)
    store.clear()
    assert files(tmp_path) == []
    assert_match(match, TEXT, rows_of(TEXT))


def test_newer_relayed_rows_replace_the_file_of_older_ones(tmp_path):
    written(tmp_path, TEXT, n_exact=10, salt="old")
    written(tmp_path, TEXT, n_exact=10, salt="new")
    match = Store(LAYOUT, PLENTY, folder=tmp_path).prefix(prompt(TEXT), exact=False)
    assert_match(match, TEXT, rows_of(TEXT, n_exact=10, salt="new"))


def test_states_gained_later_reach_the_disk(tmp_path):
    written(tmp_path, TEXT)
    written(tmp_path, TEXT, captured=[(0, 80)])
    (span,) = Store(LAYOUT, PLENTY, folder=tmp_path).spans(prompt(TEXT), 0, 32)
    assert not np.isnan(span.rows.states[CAPTURE]).any()


@pytest.mark.parametrize("name", ["q8", "q8-q4", "q6-q4", "q4"])
def test_smaller_files_give_nearly_the_same_rows(tmp_path, name):
    layout = RowLayout((128, 128), (128, 128), "wide")
    values = np.random.default_rng(0).standard_normal(80 * layout.token_bytes // 2).astype(np.float16)
    rows = rows_of(TEXT, layout=layout)
    rows.data[:] = values.view(np.uint8)
    store = Store(layout, PLENTY, folder=tmp_path, codec=CODECS[name])
    store.put(rows)
    store.close()
    assert files(tmp_path)[0].stat().st_size < 0.6 * rows.n_bytes + 2000
    again = Store(layout, PLENTY, folder=tmp_path)
    assert again.prefix(prompt(TEXT), exact=True) is None
    match = again.prefix(prompt(TEXT), exact=False)
    match.rows.bring()
    error = match.rows.data.view(np.float16).astype(np.float32) - values
    assert len(match) == 80 and match.rows.n_exact == 0 and 0 < np.sqrt(np.mean(error**2)) < 0.12
    assert again.stats().ram_bytes == match.rows.n_bytes


def test_what_is_being_put_never_loses_what_it_rests_on(tmp_path):
    """Memory so short that writing one run to disk would evict the file that the run being put goes on from."""
    size = files_size(tmp_path / "one", TEXT)
    n_bytes = rows_of(TEXT).n_bytes
    store = Store(LAYOUT, n_bytes + 100, folder=tmp_path / "store", disk_bytes=size + 100, foresight=OldIsWorthless())
    store.put(rows_of(TEXT, origin="old"))
    store.put(rows_of([1, *TEXT[1:]], origin="new"))
    store.put(rows_of([*TEXT, *range(20)], origin="new"))
    for text in (TEXT, [1, *TEXT[1:]], [*TEXT, *range(20)]):
        match = store.prefix(prompt(text), exact=True)
        if match:
            assert_match(match, text, rows_of(text))
    assert len(store.prefix(prompt([*TEXT, *range(20)]), exact=True)) == 100


@pytest.mark.parametrize("codec", ["plain", "q8"])
def test_rows_read_ahead_need_no_file_when_they_are_asked_for(tmp_path, codec):
    layout = RowLayout((64, 64), (64, 64), "wide")
    store = Store(layout, PLENTY, folder=tmp_path, codec=CODECS[codec])
    rows = rows_of(TEXT, layout=layout)
    rows.data[:] = np.random.default_rng(0).standard_normal(rows.data.size // 2).astype(np.float16).view(np.uint8)
    store.put(rows)
    store.close()
    expected = found(Store(layout, PLENTY, folder=tmp_path), TEXT, exact=False).rows.data
    again = Store(layout, PLENTY, folder=tmp_path)
    again.prefetch(prompt([*TEXT[:60], 7, 8]))
    again.prefetch(prompt([7, 8]))
    assert again.stats().hits == 0
    reads = []
    original = RowFile._map
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowFile, "_map", lambda file, order: reads.append(file.path) or original(file, order))
        match = again.prefix(prompt(TEXT), exact=False)
    assert match.rows.is_whole
    np.testing.assert_array_equal(match.rows.data, expected)
    assert reads == []
