"""What a store was good for, over all runs, and what the next run knows of the ones before."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.sample_rows import LAYOUT, rows_of

from relaylite.store import Store
from relaylite.store.folder import LEDGER, RowFolder
from relaylite.store.ledger import Ledger

PLENTY = 1 << 30
TEXT = list(range(100, 140))


def run(folder, agents=("plan", "code")) -> Store:
    store = Store(LAYOUT, PLENTY, folder=folder)
    store.speed.learn(0, 100, 1000.0)
    for agent in agents:
        store.put(rows_of(TEXT, origin=agent))
        store.prefix(np.array(TEXT, np.int32), exact=True)
    return store


def test_hits_are_counted_with_what_they_saved(tmp_path):
    stats = run(None).stats()
    assert (stats.hits, stats.hit_tokens, stats.seconds_saved) == (2, 80, pytest.approx(0.8, rel=0.02))
    assert (stats.spans, stats.tokens, stats.disk_bytes) == (1, 40, 0)


def test_sums_go_on_over_runs_and_are_entered_once(tmp_path):
    for _ in range(2):
        store = run(tmp_path)
        store.flush()
        store.close()
    stats = RowFolder(tmp_path, PLENTY).stats()
    assert (stats.hits, stats.hit_tokens, stats.seconds_saved) == (4, 160, pytest.approx(1.6, rel=0.02))
    assert (stats.models, stats.spans, stats.tokens) == (1, 1, 40)
    assert stats.disk_bytes == sum(path.stat().st_size for path in tmp_path.glob("*.rows"))


def test_the_next_run_knows_who_follows_whom(tmp_path):
    run(tmp_path, ["plan", "code", "review", "plan", "code"]).close()
    assert RowFolder(tmp_path, PLENTY).ledger().follows == {"code": {"review": 1}, "plan": {"code": 2}, "review": {"plan": 1}}
    again = Store(LAYOUT, PLENTY, folder=tmp_path)
    again.put(rows_of(TEXT, origin="plan"))
    soon = again._foresight.visits()
    assert soon["code"] > soon["review"] > soon["plan"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 2}', '{"version": 1, "hits": "x"}', '{"version": 1, "follows": {"a": 1}}', "\xff"]
)
def test_a_damaged_ledger_is_an_empty_one(tmp_path, text):
    (tmp_path / LEDGER).write_text(text, encoding="latin-1")
    store = run(tmp_path)
    store.close()
    assert RowFolder(tmp_path, PLENTY).ledger().hits == 2


def test_a_newer_ledger_is_an_empty_one():
    text = Ledger(3, 40, 1.5).to_json().replace('"version": 1', '"version": 2')
    assert Ledger.from_json(text) == Ledger()


def test_a_ledger_reads_back_as_written():
    ledger = Ledger(3, 40, 1.5, {"plan": {"code": 2.0}})
    assert Ledger.from_json(ledger.to_json()) == ledger
    assert json.loads(ledger.to_json())["version"] == 1
    assert ledger.plus(ledger).minus(ledger) == ledger


def test_verify_removes_the_damaged_and_keeps_the_right(tmp_path):
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    for n in range(4):
        store.put(rows_of([n, *TEXT]))
    store.close()
    paths = sorted(tmp_path.glob("*.rows"))
    content = bytearray(paths[1].read_bytes())
    content[-5] ^= 4
    paths[1].write_bytes(content)
    assert RowFolder(tmp_path, PLENTY).verify() == (3, [paths[1].name])
    assert sorted(tmp_path.glob("*.rows")) == [paths[0], *paths[2:]]


def test_clear_empties_the_folder_for_all_models(tmp_path):
    run(tmp_path).close()
    n_bytes = sum(path.stat().st_size for path in tmp_path.glob("*.rows"))
    assert RowFolder(tmp_path, PLENTY).clear() == n_bytes > 0
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    assert RowFolder(tmp_path, PLENTY).stats().hits == 0
    assert RowFolder(tmp_path / "none", PLENTY).clear() == 0


def test_who_computed_nothing_leaves_the_speeds_that_another_process_measured(tmp_path):
    for ms in (1000.0, 400.0):
        idle = Store(LAYOUT, PLENTY, folder=tmp_path)
        other = Store(LAYOUT, PLENTY, folder=tmp_path)
        for _ in range(2):  # the first one hardly counts and is not remembered
            other.speed.learn(0, 100, ms)
        other.close()
        idle.close()
    assert RowFolder(tmp_path, PLENTY).ledger().speeds[LAYOUT.fingerprint] == ((0, 100, 1000.0), (0, 100, 400.0))


def test_who_did_nothing_writes_nothing(tmp_path):
    store = run(tmp_path)
    store.speed.learn(0, 100, 1000.0)
    store.close()
    before = (tmp_path / LEDGER).stat().st_mtime_ns
    Store(LAYOUT, PLENTY, folder=tmp_path).close()
    assert (tmp_path / LEDGER).stat().st_mtime_ns == before


def test_what_a_writer_of_the_ledger_that_was_killed_left_is_removed(tmp_path):
    left = tmp_path / f".{LEDGER}.1"
    left.write_text("half")
    run(tmp_path).close()
    assert not left.exists() and RowFolder(tmp_path, PLENTY).ledger().hits == 2
