"""Files of the store that are damaged or foreign, and folders and disks that cannot be written: a miss and one line."""

from __future__ import annotations

import logging
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.rows_on_disk import PLENTY, TEXT, files, found, prompt, written
from support.sample_rows import CAPTURE, LAYOUT, assert_match, rows_of

from relaylite.reuse.rows import RowLayout
from relaylite.store import Store
from relaylite.store.codec import PLAIN
from relaylite.store.folder import RowFolder
from relaylite.store.rowfile import MAGIC, PREAMBLE, VERSION, Draft, RowFile, RowWriter


def test_a_foreign_file_under_a_name_of_ours_is_ignored(tmp_path):
    written(tmp_path, TEXT)
    (ours,) = files(tmp_path)
    other = RowLayout(LAYOUT.k_bytes, LAYOUT.v_bytes, "f2")
    written(tmp_path / "other", TEXT, layout=other)
    ours.write_bytes(files(tmp_path / "other")[0].read_bytes())
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    assert store.prefix(prompt(TEXT), exact=False) is None
    assert ours.exists()


def test_a_pipe_in_place_of_a_file_is_a_miss_and_is_removed(tmp_path, caplog):
    written(tmp_path, TEXT)
    (path,) = files(tmp_path)
    path.unlink()
    os.mkfifo(path)
    assert found(Store(LAYOUT, PLENTY, folder=tmp_path), TEXT, exact=False) is None
    assert not path.exists() and "no regular file" in caplog.text
    os.mkfifo(tmp_path / "ledger.json")
    assert RowFolder(tmp_path, PLENTY).stats().hits == 0


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


@pytest.mark.parametrize("strange", [-1, -(2**31), 180, 400, 2**31 - 1])
def test_a_file_with_ids_that_the_vocabulary_lacks_is_a_miss_with_one_warning_and_is_removed(tmp_path, caplog, strange):
    rows = rows_of([*TEXT, strange])
    draft = Draft(rows, prompt([]), len(rows))
    path = tmp_path / draft.file_name
    RowWriter(draft, PLAIN).write(path)
    store = Store(LAYOUT, PLENTY, folder=tmp_path, n_vocab=180)
    assert found(store, TEXT, exact=False) is None
    assert not path.exists()
    assert [record.levelno for record in caplog.records] == [logging.WARNING] and path.name in caplog.text


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


def test_damage_to_one_file_leaves_the_others_usable(tmp_path):
    first, second = TEXT[:40], TEXT[40:]
    written(tmp_path, first + second, first + [1] * 20)
    for path in files(tmp_path):
        if RowFile(path).header.position == 40 and RowFile(path).tokens[-1] == 1:
            path.write_bytes(path.read_bytes()[:-1])
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    assert len(store.prefix(prompt(first + [1] * 20), exact=True)) == 40
    assert_match(store.prefix(prompt(TEXT), exact=True), TEXT, rows_of(TEXT))


def test_a_file_of_a_later_version_is_left_alone_with_one_line(tmp_path, caplog):
    written(tmp_path, TEXT)
    (path,) = files(tmp_path)
    content = path.read_bytes()
    _, _, *rest = PREAMBLE.unpack_from(content)
    path.write_bytes(PREAMBLE.pack(MAGIC, VERSION + 1, *rest) + content[PREAMBLE.size :])
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
            assert len(store.prefix(prompt([2, *TEXT]), exact=True)) == 81
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
