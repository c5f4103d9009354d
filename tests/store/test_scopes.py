"""Scopes: what one party puts, no other finds, neither in memory nor on disk, though all share the budgets."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sample_rows import LAYOUT, assert_match, rows_of

from relaylite.reuse.plan import Quote, Segment
from relaylite.reuse.planner import Matcher
from relaylite.reuse.rows import Rows
from relaylite.store import Scope, Store
from relaylite.store.rowfile import SUFFIX, RowFile

PLENTY = 1 << 30
TEXT = list(range(100, 180))
NAMES = ["", "a", "b"]

few = st.lists(st.integers(0, 2), min_size=1, max_size=20)
puts = st.lists(st.tuples(st.sampled_from(NAMES), few, st.integers(0, 20)), max_size=6)


def ids(tokens: list[int]) -> np.ndarray:
    return np.array(tokens, np.int32)


def rows_for(name: str, tokens: list[int], n_exact: int) -> Rows:
    """Rows of which those that are not exact differ from scope to scope."""
    return rows_of(tokens, n_exact=min(n_exact, len(tokens)), salt=name)


def found_in(matcher: Matcher, tokens: list[int]) -> list[Segment]:
    quotes = [Quote(0, len(tokens), tuple(tokens), 0)]
    prefixes = [matcher.prefix(ids(tokens), exact=exact) for exact in (True, False)]
    return [found for found in prefixes if found] + matcher.spans(ids(tokens), 0, 3, quotes)


def described(found: list[Segment]) -> list[tuple[int, int, str, bytes]]:
    return [(each.start, each.end, each.kind.value, each.rows.slice(each.offset, each.offset + len(each)).data.tobytes()) for each in found]


@settings(max_examples=60)
@given(puts, few, st.booleans())
def test_a_scope_is_like_a_store_of_its_own(puts, prompt, is_reopened):
    with TemporaryDirectory() as folder:
        shared = Store(LAYOUT, PLENTY, folder=Path(folder) / "shared")
        own = {name: Store(LAYOUT, PLENTY, folder=Path(folder) / f"own{name}") for name in NAMES}
        for name, tokens, n_exact in puts:
            rows = rows_for(name, tokens, n_exact)
            Scope(shared, name).put(rows)
            own[name].put(rows)
        if is_reopened:
            for store in (shared, *own.values()):
                store.close()
            shared = Store(LAYOUT, PLENTY, folder=Path(folder) / "shared")
            own = {name: Store(LAYOUT, PLENTY, folder=Path(folder) / f"own{name}") for name in NAMES}
        for name in NAMES:
            ours, theirs = found_in(Scope(shared, name), prompt), found_in(own[name], prompt)
            if is_reopened:  # files are read in another order: equal tokens may come from another text
                assert sorted((each.start, each.end) for each in ours) == sorted((each.start, each.end) for each in theirs)
            else:
                assert described(ours) == described(theirs)
            assert Scope(shared, name).stats().tokens == own[name].stats().tokens


@settings(max_examples=60)
@given(puts, few, st.integers(0, 60), st.integers(0, 9000))
def test_nothing_of_another_scope_is_handed_out_however_scarce_the_room(puts, prompt, n_ram, disk_bytes):
    with TemporaryDirectory() as folder:
        budget = n_ram * LAYOUT.token_bytes
        store = Store(LAYOUT, budget, folder=Path(folder), disk_bytes=disk_bytes)
        for i, (name, tokens, n_exact) in enumerate(puts):
            Scope(store, name).put(rows_for(name, tokens, n_exact))
            assert store.stats().ram_bytes <= budget
            assert sum(path.stat().st_size for path in Path(folder).glob(f"*{SUFFIX}")) <= disk_bytes
            for other in NAMES:
                sources = [rows_for(other, tokens, n_exact) for name, tokens, n_exact in puts[: i + 1] if name == other]
                for found in found_in(Scope(store, other), prompt):
                    assert any(_is_of(found, prompt, source) for source in sources)


def _is_of(found: Segment, prompt: list[int], source: Rows) -> bool:
    try:
        assert_match(found, prompt, source)
    except (AssertionError, IndexError):  # other bytes, or a shorter text
        return False
    return True


def test_scopes_meet_neither_in_memory_nor_in_another_process(tmp_path):
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    Scope(store, "a").put(rows_of(TEXT))
    Scope(store, "b").put(rows_of(TEXT, position=5))
    store.close()
    for each in (store, Store(LAYOUT, PLENTY, folder=tmp_path)):
        assert each.prefix(ids(TEXT), exact=False) is None and not each.spans(ids([7, *TEXT]), 0, 32)
        assert Scope(each, "b").prefix(ids(TEXT), exact=False) is None
        assert len(Scope(each, "a").prefix(ids(TEXT), exact=True)) == len(TEXT)
        [ours], [theirs] = (Scope(each, name).spans(ids([7, *TEXT]), 0, 32) for name in "ab")
        assert (ours.rows.position, theirs.rows.position) == (0, 5)


def test_a_scope_has_figures_of_its_own_and_the_store_those_of_all():
    store = Store(LAYOUT, PLENTY)
    for name, n in (("", 80), ("a", 60), ("b", 30)):
        Scope(store, name).put(rows_of(TEXT[:n]))
    Scope(store, "a").prefix(ids(TEXT), exact=True)
    assert [Scope(store, name).stats().tokens for name in ("", "a", "b")] == [80, 60, 30]
    assert [Scope(store, name).stats().hit_tokens for name in ("", "a", "b")] == [0, 60, 0]
    assert (store.stats().tokens, store.stats().hits, store.stats().hit_tokens) == (170, 1, 60)
    assert store.stats().ram_bytes == sum(Scope(store, name).stats().ram_bytes for name in ("", "a", "b"))


def test_room_for_one_scope_may_come_from_another():
    store = Store(LAYOUT, 100 * LAYOUT.token_bytes)
    Scope(store, "a").put(rows_of(TEXT))
    Scope(store, "b").put(rows_of(TEXT))
    assert Scope(store, "a").prefix(ids(TEXT), exact=False) is None
    assert len(Scope(store, "b").prefix(ids(TEXT), exact=False)) == 80


def test_files_keep_a_mark_of_the_name_and_those_without_a_scope_the_first_version(tmp_path):
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    Scope(store, "secret-key").put(rows_of(TEXT))
    store.put(rows_of(TEXT))
    store.close()
    files = {path.read_bytes()[8]: path for path in tmp_path.glob(f"*{SUFFIX}")}
    assert sorted(files) == [1, 2]
    assert b'"scope"' not in files[1].read_bytes() and RowFile(files[1]).header.scope == ""
    assert RowFile(files[2]).header.scope
    assert not any(b"secret-key" in path.read_bytes() for path in tmp_path.iterdir())


def test_a_multitude_of_scopes_that_hold_nothing_is_forgotten():
    store = Store(LAYOUT, 100 * LAYOUT.token_bytes)
    for i in range(500):
        Scope(store, str(i)).put(rows_of(TEXT))
        Scope(store, f"asked {i}").prefix(ids(TEXT), exact=False)
    assert len(store._holdings._shelves) < 200
    assert len(Scope(store, "499").prefix(ids(TEXT), exact=False)) == 80


# answers


@pytest.mark.parametrize("n_exact", [0, 30, 50, 80])
def test_answers_are_known_again_after_a_restart_each_in_its_scope(tmp_path, n_exact):
    store = Store(LAYOUT, PLENTY, folder=tmp_path)
    store.put(rows_of(TEXT, n_exact=n_exact, origin="r0"), answer=50)
    store.put(rows_of([*TEXT, *range(300, 340)], n_exact=n_exact, origin="r1"), answer=len(TEXT) + 10)
    store.put(rows_of(range(500, 540), origin="no answer"))
    Scope(store, "a").put(rows_of(TEXT[::-1], origin="r2"), answer=70)
    store.close()
    for each in (store, Store(LAYOUT, PLENTY, folder=tmp_path)):
        found = {origin: tokens.tolist() for tokens, origin in each.answers()}
        assert found == {"r0": TEXT[50:], "r1": list(range(310, 340))}
        assert [(tokens.tolist(), origin) for tokens, origin in Scope(each, "a").answers()] == [(TEXT[::-1][70:], "r2")]
        assert Scope(each, "b").answers() == []


def test_an_answer_to_a_known_text_and_one_that_parts_from_it_are_answers_too():
    store = Store(LAYOUT, PLENTY)
    store.put(rows_of(TEXT))
    store.put(rows_of(TEXT[:60], origin="r1"), answer=40)
    store.put(rows_of([*TEXT[:50], 7, 8, 9], origin="r2"), answer=40)
    assert sorted(tokens.tolist() for tokens, _ in store.answers()) == [[*TEXT[40:50], 7, 8, 9], TEXT[40:60]]


def test_origins_that_come_only_once_are_not_learnt_as_agents(tmp_path):
    store = Store(LAYOUT, 100 * LAYOUT.token_bytes, folder=tmp_path)
    for i in range(20):
        Scope(store, "a").put(rows_of([i, *TEXT], origin=f"request {i}"), answer=20, agent="")
    store.close()
    assert not (tmp_path / "ledger.json").exists() or "request" not in (tmp_path / "ledger.json").read_text()
    assert not store._foresight.turns
    assert [origin for _, origin in Scope(store, "a").answers()][-1] == "request 19"
