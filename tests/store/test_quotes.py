"""Quotes: short runs are taken over where they are known to be of a text that is stored."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.sample_rows import LAYOUT, assert_match, rows_of

from relaylite.reuse.plan import Kind, Quote, Segment
from relaylite.reuse.planner import MIN_QUOTED, make_plan
from relaylite.reuse.policies import NAIVE, PREFIX
from relaylite.store import Store

PLENTY = 1 << 30
ANSWER = tuple(range(100, 180))
STORED = [1, 2, 3, *ANSWER]
RUNS = ((0, 10), (12, 15), (17, 18), (20, 22), (30, 61))
GLUE = 7


def store_of(*texts: list[int], **options) -> Store:
    store = Store(LAYOUT, PLENTY)
    for text in texts:
        store.put(rows_of(text, **options))
    return store


def quoted(answer: tuple[int, ...], runs: tuple[tuple[int, int], ...]) -> tuple[list[int], list[Quote]]:
    """A prompt that holds these runs of the answer with a token between them."""
    prompt, quotes = [9, 9], []
    for start, end in runs:
        quotes.append(Quote(len(prompt), len(prompt) + end - start, answer, start))
        prompt += [*answer[start:end], GLUE]
    return prompt, quotes


def spans(store: Store, prompt: list[int], quotes: list[Quote], start: int = 0, least: int = 32) -> list[Segment]:
    return store.spans(np.array(prompt, np.int32), start, least, quotes)


def test_runs_of_a_stored_answer_are_taken_over_however_short():
    prompt, quotes = quoted(ANSWER, RUNS)
    store = store_of(STORED)
    assert not spans(store, prompt, [])
    found = spans(store, prompt, quotes)
    assert [(each.rows.position + each.offset - 3, len(each)) for each in found] == [(a, b - a) for a, b in RUNS if b - a >= MIN_QUOTED]
    for each in found:
        assert_match(each, prompt, rows_of(STORED))


def test_short_runs_come_from_the_text_that_holds_the_answer():
    prompt, quotes = quoted(ANSWER, RUNS)
    store = store_of(STORED)
    for start, end in RUNS:  # the same tokens elsewhere, stored later
        store.put(rows_of([5, *ANSWER[start:end], 6]))
    for each in spans(store, prompt, quotes):
        assert_match(each, prompt, rows_of(STORED))


def test_an_answer_that_is_not_stored_is_not_quoted():
    prompt, quotes = quoted(ANSWER, RUNS)
    assert not spans(store_of(STORED[:30]), prompt, quotes)
    assert not spans(store_of([5, *ANSWER[:10], 6]), prompt, quotes)


def test_a_quote_that_says_otherwise_is_passed_over():
    prompt, quotes = quoted(ANSWER, RUNS)
    wrong = [replace(quote, offset=quote.offset + 1) for quote in quotes] + [
        replace(quotes[0], end=quotes[0].end + 1),
        Quote(90, 95, ANSWER, 0),
    ]
    assert not spans(store_of(STORED), prompt, wrong)


def test_longer_spans_come_first_and_only_spans_are_quoted():
    prompt, quotes = quoted(ANSWER, ((0, 40), (42, 46)))
    store = store_of(STORED, [4, *prompt[2:43], *range(500, 520)])
    first, second = spans(store, prompt, quotes)
    assert (len(first), len(second)) == (41, 4)
    assert make_plan([*prompt, 8], store, NAIVE, quotes).count(Kind.SPAN) == 45
    assert not make_plan([*prompt, 8], store, PREFIX, quotes).count(Kind.SPAN)
    assert make_plan([*prompt, 8], store, NAIVE, quotes).quotes == tuple(quotes)


def test_exact_rows_come_before_longer_relayed_ones():
    prompt, quotes = quoted(ANSWER, ((4, 12),))
    store = store_of([1, *ANSWER[:50]])
    store.put(rows_of([2, *ANSWER], n_exact=0, salt="relayed"))
    [found] = spans(store, prompt, quotes)
    assert_match(found, prompt, rows_of([1, *ANSWER[:50]]))


few = st.lists(st.integers(0, 3), min_size=1, max_size=24)


@given(st.lists(few, max_size=3), few, st.lists(st.tuples(st.integers(0, 24), st.integers(0, 24), st.integers(0, 24), few), max_size=3))
def test_quotes_only_add_short_runs_and_never_other_tokens(stored, prompt, raw):
    store = store_of(*stored)
    quotes = [Quote(start, start + n, tuple(text), offset) for start, n, offset, text in raw]
    quotes += [
        Quote(start, start + 3, tuple(text), text.index(prompt[start]))
        for text in stored
        for start in range(len(prompt))
        if prompt[start] in text
    ]
    without, found = spans(store, prompt, [], 0, 5), spans(store, prompt, quotes, 0, 5)
    places = [(each.start, each.end) for each in found]
    assert set(places) >= {(each.start, each.end) for each in without}
    assert all(a[1] <= b[0] for a, b in pairwise(places))
    for each in found:
        assert each.rows.tokens[each.offset : each.offset + len(each)].tolist() == prompt[each.start : each.end]
        assert len(each) >= 5 or (len(each) >= MIN_QUOTED and any(q.start <= each.start and each.end <= q.end for q in quotes))
