"""What is found anywhere: every run that is long enough, chosen and tiled as a naive search would."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sample_rows import LAYOUT, assert_match, rows_of

from relaylite.reuse.overlaps import Overlap, OverlapIndex, window_for
from relaylite.store import Store

PLENTY = 1 << 30
texts = st.lists(st.integers(0, 2), max_size=30)


def naive_overlaps(stored: dict[int, list[int]], tokens: list[int], min_length: int) -> set[Overlap]:
    overlaps = set()
    for key, text in stored.items():
        for i in range(len(tokens)):
            for j in range(len(text)):
                if i and j and tokens[i - 1] == text[j - 1]:
                    continue
                n = 0
                while i + n < len(tokens) and j + n < len(text) and tokens[i + n] == text[j + n]:
                    n += 1
                if n >= min_length:
                    overlaps.add(Overlap(i, n, key, j))
    return overlaps


@settings(max_examples=300, deadline=None)
@given(st.lists(texts, max_size=5), texts, st.integers(1, 9), st.data())
def test_the_index_finds_exactly_the_runs_of_a_naive_search(stored, tokens, min_length, data):
    index = OverlapIndex(window_for(min_length))
    known = dict(enumerate(stored))
    for key, text in known.items():
        index.add(key, np.array(text, np.int32))
    for key in data.draw(st.sets(st.sampled_from(sorted(known)))) if known else ():
        index.discard(key)
        del known[key]
    found = index.find(np.array(tokens, np.int32), min_length)
    assert len(found) == len(set(found))
    assert set(found) == naive_overlaps(known, tokens, min_length)


class Colliding(OverlapIndex):
    """All tiles have the same hash."""

    def _mix(self, tokens):
        return np.zeros(len(tokens), np.uint64)


@settings(max_examples=100, deadline=None)
@given(st.lists(texts, max_size=3), texts, st.integers(3, 9))
def test_equal_hashes_are_not_taken_for_equal_tokens(stored, tokens, min_length):
    index = Colliding(window_for(min_length))
    for key, text in enumerate(stored):
        index.add(key, np.array(text, np.int32))
    for overlap in index.find(np.array(tokens, np.int32), min_length):
        assert stored[overlap.key][overlap.offset : overlap.offset + overlap.n] == tokens[overlap.start : overlap.start + overlap.n]


def test_a_long_life_does_not_grow_the_index():
    index = OverlapIndex(4)
    rng = np.random.default_rng(0)
    for key in range(400):
        index.add(key, rng.integers(0, 1000, 100, dtype=np.int32))
        index.discard(key - 4)
    assert len(index._starts) < 20 and len(index._arena) < 4000 and len(index._hashes) == 100


def test_discarding_most_texts_keeps_the_others_findable():
    index = OverlapIndex(4)
    rng = np.random.default_rng(0)
    stored = [rng.integers(0, 1000, 50, dtype=np.int32) for _ in range(40)]
    for key, text in enumerate(stored):
        index.add(key, text)
    for key in range(39):
        index.discard(key)
    assert index.find(stored[39], 8) == [Overlap(0, 50, 39, 0)]
    assert index.find(stored[3], 8) == []


def naive_lengths(stored: list[list[int]], tokens: list[int], start: int, min_length: int) -> list[int]:
    """Lengths of the spans taken when the longest is taken again and again."""
    free = [i >= start for i in range(len(tokens))]
    lengths = []
    while True:
        best = (0, 0)
        for text in stored:
            for i in range(len(tokens)):
                for j in range(len(text)):
                    n = 0
                    while i + n < len(tokens) and j + n < len(text) and free[i + n] and tokens[i + n] == text[j + n]:
                        n += 1
                    if n > best[0]:
                        best = (n, i)
        if best[0] < min_length:
            return lengths
        lengths.append(best[0])
        free[best[1] : best[1] + best[0]] = [False] * best[0]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=16), max_size=4), st.lists(st.integers(0, 3), max_size=24), st.integers(0, 5)
)
def test_spans_are_disjoint_ascending_verified_and_start_with_the_longest(stored, tokens, start):
    store = Store(LAYOUT, PLENTY)
    for text in stored:
        store.put(rows_of(text))
    matches = store.spans(np.array(tokens, np.int32), start, 3)
    position = start
    for match in matches:
        assert match.start >= position and len(match) >= 3
        position = match.end
        # every row rests on its own text up to it, which the stored texts tell
        context = match.rows.position + match.offset
        sources = [t for t in stored if t[context : context + len(match)] == tokens[match.start : match.end]]
        assert sources
        assert any(_holds(match, tokens, source) for source in sources)
    lengths = naive_lengths(stored, tokens, start, 3)
    assert max((len(m) for m in matches), default=0) == max(lengths, default=0)


def _holds(match, tokens, source) -> bool:
    try:
        assert_match(match, tokens, rows_of(source))
    except AssertionError:
        return False
    return True


def test_a_quoted_passage_is_found_inside_a_longer_text():
    rng = np.random.default_rng(1)
    text = rng.integers(0, 50_000, 300, dtype=np.int32)
    store = Store(LAYOUT, PLENTY)
    store.put(rows_of(text))
    prompt = np.concatenate([[7, 8, 9], text[100:140], [5], text[200:231], [6]]).astype(np.int32)
    (match,) = store.spans(prompt, 0, 32)
    assert (match.start, len(match), match.rows.position + match.offset) == (3, 40, 100)
    assert_match(match, prompt, rows_of(text))


def test_a_run_over_the_end_of_a_shared_prefix_is_one_span():
    shared, one, two = list(range(40)), list(range(100, 140)), list(range(200, 240))
    store = Store(LAYOUT, PLENTY)
    store.put(rows_of(shared + one))
    store.put(rows_of(shared + two))
    prompt = [999, *shared[20:], *two[:20]]
    (match,) = store.spans(np.array(prompt, np.int32), 0, 32)
    assert len(match) == 40
    assert_match(match, prompt, rows_of(shared + two))


def test_tokens_with_captured_states_are_taken_before_a_longer_run_without():
    answer = list(range(100, 150))
    store = Store(LAYOUT, PLENTY)
    store.put(rows_of([1, 2, 3, *answer], captured=[(3, 53)]))
    store.put(rows_of([4, 5, 6, *answer, *range(300, 340)], n_exact=3))
    prompt = [9, *answer, *range(300, 340)]
    first, second = store.spans(np.array(prompt, np.int32), 0, 32)
    assert (first.start, len(first), len(second)) == (1, 50, 40)
    assert "l_in-1" in first.rows.states


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")])
def test_among_equal_runs_the_last_used_wins(order):
    passage = list(range(100, 150))
    texts = {"old": [1, *passage], "new": [2, *passage]}
    store = Store(LAYOUT, PLENTY)
    for name in order:
        store.put(rows_of(texts[name]))
    (match,) = store.spans(np.array([9, *passage], np.int32), 0, 32)
    assert_match(match, [9, *passage], rows_of(texts[order[1]]))


def test_exact_rows_win_over_relayed_ones_used_later():
    passage = list(range(100, 150))
    store = Store(LAYOUT, PLENTY)
    store.put(rows_of([1, *passage]))
    store.put(rows_of([2, *passage], n_exact=1))
    (match,) = store.spans(np.array([9, *passage], np.int32), 0, 32)
    assert_match(match, [9, *passage], rows_of([1, *passage]))


def test_exact_rows_are_taken_before_a_longer_run_of_relayed_ones():
    answer, more = list(range(100, 150)), list(range(300, 340))
    store = Store(LAYOUT, PLENTY)
    original, relayed = rows_of([1, *answer]), rows_of([2, *answer, *more], n_exact=1, salt="relayed")
    store.put(original)
    store.put(relayed)
    prompt = [9, *answer, *more]
    first, second = store.spans(np.array(prompt, np.int32), 0, 32)
    assert (first.start, len(first), second.start, len(second)) == (1, 50, 51, 40)
    assert_match(first, prompt, original)
    assert_match(second, prompt, relayed)


def test_rows_from_another_position_serve_spans_but_never_a_prefix():
    passage = list(range(100, 150))
    detached = rows_of(passage, position=70)
    store = Store(LAYOUT, PLENTY)
    store.put(detached)
    assert store.prefix(np.array(passage, np.int32), exact=False) is None
    (match,) = store.spans(np.array([9, *passage], np.int32), 0, 32)
    assert match.rows.position == 70
    assert_match(match, [9, *passage], detached)


def test_text_that_repeats_itself_is_matched_in_bounded_work():
    store = Store(LAYOUT, PLENTY)
    layout_free = [7] * 4000
    store.put(rows_of(layout_free))
    matches = store.spans(np.array([7] * 2000, np.int32), 0, 32)
    assert sum(len(match) for match in matches) >= 1900
