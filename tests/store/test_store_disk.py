"""The disk tier: what comes back, what does not, and what it costs when files or the disk misbehave."""

from __future__ import annotations

import logging
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_rows import CAPTURE, LAYOUT, assert_match, rows_of

from relaylite.loading import Damaged
from relaylite.plan import Match
from relaylite.rows import RowLayout, Rows
from relaylite.store import Store
from relaylite.store.quantize import CODECS
from relaylite.store.rowfile import MAGIC, PREAMBLE, RowFile
from relaylite.store.worth import Foresight, Uses

PLENTY = 1 << 30
TEXT = list(range(100, 180))


def prompt(tokens) -> np.ndarray:
    return np.array(tokens, np.int32)


def found(store: Store, tokens, *, exact: bool) -> Match | None:
    """The prefix with all its rows, as whoever plans with it gets it: rows that are damaged are forgotten, and it is asked for again."""
    while match := store.prefix(prompt(tokens), exact=exact):
        try:
            match.rows.bring()
            return match
        except Damaged as damaged:
            store.forget(damaged)
    return None


def written(folder: Path, *texts: list[int], layout: RowLayout = LAYOUT, **options) -> None:
    store = Store(layout, PLENTY, folder=folder)
    for text in texts:
        store.put(rows_of(text, layout=layout, **options))
    store.close()


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.rows"))


def test_a_second_start_finds_prefix_spans_and_states(tmp_path):
    rows = rows_of(TEXT, n_exact=50, salt="relayed", captured=[(40, 80)], origin="plan")
    store = Store(LAYOUT, PLENTY, folder=tmp_path / "store")
    store.put(rows)
    store.close()
    again = Store(LAYOUT, PLENTY, folder=tmp_path / "store")
    match = again.prefix(prompt(TEXT), exact=False)
    assert match.n == 80 and again.prefix(prompt(TEXT), exact=True).n == 50
    assert_match(match, TEXT, rows)
    quoted = [7, *TEXT[45:]]
    (span,) = again.spans(prompt(quoted), 0, 32)
    assert_match(span, quoted, rows)
    np.testing.assert_array_equal(span.rows.states[CAPTURE][span.offset : span.offset + span.n], rows.states[CAPTURE][45:])
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
        assert match.n == len(text)
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


def test_a_foreign_file_under_a_name_of_ours_is_ignored(tmp_path):
    written(tmp_path, TEXT)
    (ours,) = files(tmp_path)
    other = RowLayout(LAYOUT.k_bytes, LAYOUT.v_bytes, "f2")
    written(tmp_path / "other", TEXT, layout=other)
    ours.write_bytes(files(tmp_path / "other")[0].read_bytes())
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    assert store.prefix(prompt(TEXT), exact=False) is None
    assert ours.exists()


def damaged(content: bytes) -> dict[str, bytes]:
    middle = len(content) // 2
    return {
        "empty": b"",
        "cut in the preamble": content[:10],
        "cut in the header": content[:100],
        "cut in the rows": content[:-30],
        "longer": content + b"x",
        "no row file": b"GGUF" + content[4:],
        "header flipped": content[:60] + bytes([content[60] ^ 1]) + content[61:],
        "rows flipped": content[:middle] + bytes([content[middle] ^ 64]) + content[middle + 1 :],
        "last byte flipped": content[:-1] + bytes([content[-1] ^ 1]),
    }


@pytest.mark.parametrize("damage", damaged(bytes(100)))
def test_a_damaged_file_is_a_miss_with_one_warning_and_is_removed(tmp_path, caplog, damage):
    written(tmp_path, TEXT)
    (path,) = files(tmp_path)
    path.write_bytes(damaged(path.read_bytes())[damage])
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    for _ in range(2):
        assert found(store, TEXT, exact=False) is None
        assert store.spans(prompt(TEXT), 0, 32) == []
    assert not path.exists()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "\n" not in caplog.text.strip() and path.name in caplog.text
    store.put(rows_of(TEXT))
    store.flush()
    assert_match(Store(LAYOUT, PLENTY, folder=tmp_path).prefix(prompt(TEXT), exact=True), TEXT, rows_of(TEXT))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_flipped_bit_ever_yields_a_wrong_row(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("flip")
    written(folder, TEXT, captured=[(0, 40)])
    (path,) = files(folder)
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    match = found(Store(LAYOUT, PLENTY, folder=folder), TEXT, exact=False)
    if match is not None:  # the gap between two sections was hit
        assert_match(match, TEXT, rows_of(TEXT))
        np.testing.assert_array_equal(match.rows.states[CAPTURE], rows_of(TEXT, captured=[(0, 40)]).states[CAPTURE])


def test_both_parts_of_a_file_whose_run_was_split_serve_spans(tmp_path):
    written(tmp_path, TEXT)
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    store.put(rows_of([*TEXT[:40], 1, 2, 3]))
    for part in (TEXT[:35], TEXT[42:78], TEXT[20:60]):
        (span,) = store.spans(prompt([7, *part]), 0, 32)
        assert span.n == len(part)
        assert_match(span, [7, *part], rows_of(TEXT))


def test_damage_to_one_file_leaves_the_others_usable(tmp_path):
    first, second = TEXT[:40], TEXT[40:]
    written(tmp_path, first + second, first + [1] * 20)
    for path in files(tmp_path):
        if RowFile(path).header.position == 40 and RowFile(path).tokens[-1] == 1:
            path.write_bytes(path.read_bytes()[:-1])
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    assert store.prefix(prompt(first + [1] * 20), exact=True).n == 40
    assert_match(store.prefix(prompt(TEXT), exact=True), TEXT, rows_of(TEXT))


def test_a_file_of_a_later_version_is_left_alone_with_one_line(tmp_path, caplog):
    written(tmp_path, TEXT)
    (path,) = files(tmp_path)
    content = path.read_bytes()
    _, version, *rest = PREAMBLE.unpack_from(content)
    path.write_bytes(PREAMBLE.pack(MAGIC, version + 1, *rest) + content[PREAMBLE.size :])
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    for _ in range(2):
        assert store.prefix(prompt(TEXT), exact=False) is None
    store.put(rows_of([1, 2, 3]))
    store.flush()
    assert store.prefix(prompt(TEXT), exact=False) is None
    assert path.exists()
    assert len(caplog.records) == 1 and "later version" in caplog.text


def test_a_folder_that_cannot_be_made_costs_one_line(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    store = Store(LAYOUT, PLENTY, folder=tmp_path / "file" / "store")
    for n in range(3):
        store.put(rows_of([n, *TEXT]))
        store.flush()
    assert_match(store.prefix(prompt([0, *TEXT]), exact=True), [0, *TEXT], rows_of([0, *TEXT]))
    assert len(caplog.records) == 1 and "memory only" in caplog.text


def test_a_read_only_folder_is_read_and_costs_one_line(tmp_path_factory, caplog):
    folder = tmp_path_factory.mktemp("readonly") / "store"
    written(folder, TEXT)
    folder.chmod(0o500)
    try:
        with as_nobody(folder):
            store = Store(LAYOUT, PLENTY, folder=folder)
            assert_match(store.prefix(prompt(TEXT), exact=True), TEXT, rows_of(TEXT))
            store.put(rows_of([1, *TEXT]))
            store.flush()
            store.put(rows_of([2, *TEXT]))
            store.flush()
            assert store.prefix(prompt([2, *TEXT]), exact=True).n == 81
    finally:
        folder.chmod(0o700)
    assert len(files(folder)) == 1
    assert len(caplog.records) == 1 and "cannot be written" in caplog.text


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """The superuser may write anywhere, so become somebody else who owns the folder."""
    if os.geteuid() != 0:
        yield
        return
    for path in [folder, *folder.iterdir()]:
        os.chown(path, 65534, 65534)
    for parent in folder.parents:
        if parent.stat().st_mode & 0o001 == 0:
            parent.chmod(parent.stat().st_mode | 0o011)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_full_disk_costs_one_line_and_no_rows_in_memory(tmp_path, caplog):
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    store.put(rows_of(TEXT))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # as a full disk: the write itself fails half way
    try:
        store.flush()
        store.put(rows_of([1, *TEXT]))
        store.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert_match(store.prefix(prompt(TEXT), exact=True), TEXT, rows_of(TEXT))
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    assert len(caplog.records) == 1 and "memory only" in caplog.text


def test_budgets_of_zero_cost_one_line(tmp_path, caplog):
    store = Store(LAYOUT, 0, folder=tmp_path, disk_bytes=0)
    for n in range(3):
        store.put(rows_of([n, *TEXT]))
        store.flush()
        assert store.prefix(prompt([n, *TEXT]), exact=True) is None
    assert list(tmp_path.iterdir()) == []
    assert len(caplog.records) == 1 and "raise store.ram or store.disk" in caplog.text


def test_a_file_removed_by_another_process_is_a_miss(tmp_path, caplog):
    written(tmp_path, TEXT)
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    store.spans(prompt(TEXT), 0, 32)
    one = Store(LAYOUT, PLENTY, folder=tmp_path)
    one.clear()
    assert store.prefix(prompt(TEXT), exact=False) is None
    assert caplog.records == []


def test_what_another_process_writes_is_found_without_a_new_start(tmp_path):
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    assert store.prefix(prompt(TEXT), exact=True) is None
    written(tmp_path, TEXT)
    assert_match(store.prefix(prompt(TEXT), exact=True), TEXT, rows_of(TEXT))


def test_rows_that_another_process_wrote_first_are_not_written_again(tmp_path):
    one, two = Store(LAYOUT, PLENTY, folder=tmp_path), Store(LAYOUT, PLENTY, folder=tmp_path)
    for store in (one, two):
        store.put(rows_of(TEXT))
    one.flush()
    (inode,) = [path.stat().st_ino for path in files(tmp_path)]
    two.flush()
    assert [path.stat().st_ino for path in files(tmp_path)] == [inode]
    three = Store(LAYOUT, PLENTY, folder=tmp_path / "other")
    three.put(rows_of(TEXT))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / files(tmp_path)[0].name).write_bytes(files(tmp_path)[0].read_bytes())
    three.prefix(prompt(TEXT), exact=True)
    assert three.stats().disk_bytes > 0 and three.stats().spans == 1


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    (tmp_path / "x.rows.part").write_bytes(b"half")
    written(tmp_path, TEXT)
    assert len(files(tmp_path)) == 1 and list(tmp_path.glob("*.part")) == []


def test_rows_that_are_asked_for_stay_on_disk_and_others_go(tmp_path):
    size = files_size(tmp_path / "one", TEXT)
    store = Store(LAYOUT, 0, folder=tmp_path / "store", disk_bytes=3 * size + 100)
    for n in range(8):
        store.put(rows_of([n, *TEXT[1:]], origin="plan"))
        assert store.prefix(prompt([0, *TEXT[1:]]), exact=True).n == 80
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
    assert store.prefix(prompt([*TEXT, *range(70)]), exact=True).n == 150


def test_the_end_of_a_text_goes_before_what_it_rests_on(tmp_path):
    size = files_size(tmp_path / "one", TEXT)
    store = Store(LAYOUT, 0, folder=tmp_path / "store", disk_bytes=2 * size + 100, foresight=OldIsWorthless())
    store.put(rows_of(TEXT, origin="old"))
    store.put(rows_of([*TEXT, *range(70)], origin="new"))
    store.put(rows_of([1, *TEXT[1:]], origin="new"))
    assert store.prefix(prompt([*TEXT, *range(70)]), exact=True).n == 80
    assert store.prefix(prompt([1, *TEXT[1:]]), exact=True).n == 80


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
    assert match.n == 80 and match.rows.n_exact == 0 and 0 < np.sqrt(np.mean(error**2)) < 0.12
    assert again.stats().ram_bytes == match.rows.n_bytes


WIDE = RowLayout((64, 64), (64, 64), "wide")


def smooth_rows(tokens, *, salt: int = 0) -> Rows:
    """Exact rows that smaller forms can hold, a function of each token and `salt`."""
    numbers = np.random.default_rng(salt).standard_normal((256, WIDE.token_bytes // 2)).astype(np.float16)[np.asarray(tokens)]
    widths = [size // 2 for size in (*WIDE.k_bytes, *WIDE.v_bytes)]
    data = np.concatenate([part.ravel() for part in np.split(numbers, np.cumsum(widths)[:-1], axis=1)])
    return Rows(np.asarray(tokens, np.int32), 0, len(tokens), data.view(np.uint8), WIDE)


def lossy(folder: Path, ram: int = PLENTY) -> Store:
    return Store(WIDE, ram, folder=folder, codec=CODECS["q8"])


def test_rows_are_exact_until_only_a_smaller_form_is_left(tmp_path):
    rows = smooth_rows(TEXT)
    store = lossy(tmp_path, 2 * rows.n_bytes)
    store.put(rows)
    store.flush()
    assert store.prefix(prompt(TEXT), exact=True).n == 80  # still in memory as it was
    for first in (1, 2, 3):
        store.put(smooth_rows([first, *TEXT[1:]]))
    assert store.prefix(prompt(TEXT), exact=True) is None
    for _ in range(2):  # from the file, then from memory again
        left = store.prefix(prompt(TEXT), exact=False)
        assert left.n == 80 and left.rows.n_exact == 0
    assert store.prefix(prompt(TEXT), exact=True) is None
    store.put(rows)
    again = store.prefix(prompt(TEXT), exact=True)
    assert again.n == 80 and again.rows.n_exact == 80
    assert_match(again, TEXT, rows)


def test_what_goes_on_from_a_smaller_form_is_found_behind_it(tmp_path):
    store = lossy(tmp_path)
    store.put(smooth_rows(TEXT[:50]))
    store.put(smooth_rows(TEXT))
    store.close()
    assert len(files(tmp_path)) == 2
    again = lossy(tmp_path)
    match = found(again, TEXT, exact=False)
    assert match.n == 80 and match.rows.n_exact == 0 and again.prefix(prompt(TEXT), exact=True) is None
    again.put(replace(match.rows, loading=None))  # as a turn that went on from them leaves them
    assert again.stats().tokens == 80 and again.stats().spans == 2


def test_exact_rows_before_a_smaller_form_stay_exact(tmp_path):
    plain = Store(WIDE, PLENTY, folder=tmp_path)
    plain.put(smooth_rows(TEXT[:50]))
    plain.close()
    store = lossy(tmp_path)
    store.put(smooth_rows(TEXT))
    store.close()
    again = lossy(tmp_path)
    assert again.prefix(prompt(TEXT), exact=True).n == 50
    match = again.prefix(prompt(TEXT), exact=False)
    assert match.n == 80 and match.rows.n_exact == 50
    [span] = again.spans(prompt([7, *TEXT]), 0, 32)[:1]
    assert span.rows.n_exact - span.offset == span.n == 50


WRITER = """
import sys, numpy as np
sys.path[:0] = {path!r}
from sample_rows import LAYOUT, rows_of
from relaylite.store import Store
store = Store(LAYOUT, {ram}, folder=__import__("pathlib").Path({folder!r}), disk_bytes={disk})
for n in range({first}, {first} + {count}):
    store.put(rows_of([n % 7, n, *range(n, n + 30)], captured=[(5, 20)]))
    store.flush()
    print(n, flush=True)
"""


def start_writer(folder: Path, first: int, count: int, *, ram: int = PLENTY, disk: int = PLENTY, before: str = "") -> subprocess.Popen[str]:
    code = before + WRITER.format(path=[p for p in sys.path if p], folder=str(folder), first=first, count=count, ram=ram, disk=disk)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def text_of(n: int) -> list[int]:
    return [n % 7, n, *range(n, n + 30)]


@pytest.mark.parametrize("kill_after", [3, 57, 140])
def test_killing_a_writer_leaves_only_correct_files(tmp_path, caplog, kill_after):
    writer = start_writer(tmp_path, 0, 200)
    done = [int(writer.stdout.readline()) for _ in range(kill_after)]
    writer.kill()
    writer.wait()
    for path in files(tmp_path):
        RowFile(path).check()
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    for n in range(200):
        match = store.prefix(prompt(text_of(n)), exact=True)
        if n in done:
            assert match.n == 32
        if match:
            assert_match(match, text_of(n), rows_of(text_of(n)))
    store.put(rows_of([9, 9, 9]))
    store.flush()
    assert list(tmp_path.glob("*.part")) == []
    assert caplog.records == []


DYING_WRITER = """
import os, signal
from relaylite.store import rowwriter
left, fdopen = {n_bytes}, os.fdopen

class Dying:
    def __init__(self, *args):
        self._file = fdopen(*args)
    def __enter__(self):
        return self
    def __exit__(self, *error):
        self._file.close()
    def __getattr__(self, name):
        return getattr(self._file, name)
    def write(self, data):
        global left
        data = bytes(data)
        self._file.write(data[:left])
        left -= len(data)
        if left <= 0:
            self._file.flush()
            os.kill(os.getpid(), signal.SIGKILL)

class DyingOs:
    fdopen = Dying
    def __getattr__(self, name):
        return getattr(os, name)

rowwriter.os = DyingOs()
"""


@pytest.mark.parametrize("n_bytes", [10, 500, 1_200, 100_001, 203_457])
def test_a_writer_killed_in_the_middle_of_a_file_leaves_only_correct_ones(tmp_path, caplog, n_bytes):
    """Killed by the disk, so to say: after so many bytes of 200 files, wherever in a file that is."""
    writer = start_writer(tmp_path, 0, 200, before=DYING_WRITER.format(n_bytes=n_bytes))
    done = [int(line) for line in writer.communicate(timeout=120)[0].split()]
    assert writer.returncode == -signal.SIGKILL and len(done) < 200
    assert len(list(tmp_path.glob("*.part"))) == 1
    for path in files(tmp_path):
        RowFile(path).check()
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    for n in done:
        assert_match(store.prefix(prompt(text_of(n)), exact=True), text_of(n), rows_of(text_of(n)))
    store.put(rows_of([9, 9, 9]))
    store.flush()
    assert list(tmp_path.glob("*.part")) == []
    assert caplog.records == []


def test_two_processes_on_one_folder_lose_nothing(tmp_path):
    writers = [start_writer(tmp_path, 0, 60), start_writer(tmp_path, 40, 60, ram=0)]
    for writer in writers:
        assert len(writer.communicate(timeout=120)[0].split()) == 60
        assert writer.returncode == 0
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    for n in range(100):
        match = store.prefix(prompt(text_of(n)), exact=True)
        assert match.n == 32
        assert_match(match, text_of(n), rows_of(text_of(n)))


def test_two_processes_keep_one_budget(tmp_path):
    budget = 30_000
    writers = [start_writer(tmp_path, first, 60, ram=ram, disk=budget) for first, ram in ((0, 0), (60, 5000))]
    while any(writer.poll() is None for writer in writers):
        with FileLock(tmp_path / "lock"):  # between two writes
            assert sum(path.stat().st_size for path in files(tmp_path)) <= budget
        time.sleep(0.01)
    assert [writer.returncode for writer in writers] == [0, 0]
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    kept = [match for n in range(120) if (match := store.prefix(prompt(text_of(n)), exact=True)) and match.n == 32]
    assert 5 < len(kept) < 60
    for path in files(tmp_path):
        RowFile(path).check()


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
    assert store.prefix(prompt([*TEXT, *range(20)]), exact=True).n == 100


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


def test_reading_ahead_of_a_damaged_file_leaves_a_miss(tmp_path, caplog):
    written(tmp_path, TEXT)
    (path,) = files(tmp_path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    store.prefetch(prompt(TEXT))
    assert len(caplog.records) == 1 and not path.exists()
    assert store.prefix(prompt(TEXT), exact=False) is None
