"""`relaylite store` through the real command, on the folder that a chain's rows went to."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.commands import Invoke, one_line
from support.sample_rows import LAYOUT, rows_of

from relaylite import paths
from relaylite.store import Store

TEXT = list(range(100, 140))


@pytest.fixture
def rows_on_disk() -> None:
    store = Store(LAYOUT, 1 << 30, folder=paths.store_folder())
    store.speed.learn(0, 100, 1000.0)
    for n in range(3):
        store.put(rows_of([n, *TEXT], origin="plan"))
    store.prefix(np.array([0, *TEXT], np.int32), exact=True)
    store.close()


def test_without_rows_it_says_so(invoke: Invoke) -> None:
    result = invoke("store")
    assert result.exit_code == 0
    assert "0 spans, 0 tokens, 0 models" in result.stdout


@pytest.mark.usefixtures("rows_on_disk")
def test_it_shows_what_is_kept_and_what_it_saved(invoke: Invoke) -> None:
    document = json.loads(invoke("store", "--json").stdout)
    n_bytes = sum(path.stat().st_size for path in paths.store_folder().glob("*.rows"))
    assert document == {
        "folder": str(paths.store_folder()),
        "models": 1,
        "spans": 3,
        "tokens": 123,
        "disk_bytes": n_bytes,
        "disk_budget_bytes": 4 * 2**30,
        "hits": 1,
        "hit_tokens": 41,
        "seconds_saved": pytest.approx(0.41, rel=0.02),
    }
    assert "3 spans, 123 tokens, 1 model\n1 hits took over 41 tokens and saved 0.4 s" in invoke("store").stdout


@pytest.mark.usefixtures("rows_on_disk")
def test_clear_leaves_nothing(invoke: Invoke) -> None:
    assert invoke("store", "clear").stdout.startswith("removed ")
    assert list(paths.store_folder().glob("*.rows")) == []
    assert json.loads(invoke("store", "--json").stdout)["hits"] == 0


@pytest.mark.usefixtures("rows_on_disk")
def test_verify_names_and_removes_what_is_damaged(invoke: Invoke) -> None:
    assert invoke("store", "verify").stdout == "3 files are right\n"
    damaged = next(paths.store_folder().glob("*.rows"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    result = invoke("store", "verify", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {"right": 2, "removed": [damaged.name]}
    assert not damaged.exists()
    assert invoke("store", "verify").exit_code == 0


def test_a_folder_that_cannot_be_cleared_is_one_line(invoke: Invoke) -> None:
    (paths.store_folder() / "lock").mkdir(parents=True)
    result = invoke("store", "clear")
    assert result.exit_code == 1 and "could not be cleared" in one_line(result)
