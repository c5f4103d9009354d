"""Several processes on one folder of the store, also such as are killed while they write."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock
from support.rows_on_disk import PLENTY, TEXT, files, prompt, written
from support.sample_rows import LAYOUT, assert_match, rows_of

from relaylite.store import Store
from relaylite.store.rowfile import RowFile


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


WRITER = """
import sys, numpy as np
sys.path[:0] = {path!r}
from support.sample_rows import LAYOUT, rows_of
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
            assert len(match) == 32
        if match:
            assert_match(match, text_of(n), rows_of(text_of(n)))
    store.put(rows_of([9, 9, 9]))
    store.flush()
    assert list(tmp_path.glob("*.part")) == []
    assert caplog.records == []


DYING_WRITER = """
import os, signal
from relaylite.store import rowfile
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

rowfile.os = DyingOs()
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
        assert len(match) == 32
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
    kept = [match for n in range(120) if (match := store.prefix(prompt(text_of(n)), exact=True)) and len(match) == 32]
    assert 5 < len(kept) < 60
    for path in files(tmp_path):
        RowFile(path).check()
