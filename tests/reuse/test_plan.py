"""`Segment`: what a part of it is, how far its K is rotated, how much of it is exact. The planner's tests have the laws of whole plans."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.sample_rows import rows_of

from relaylite.reuse.plan import Kind, Segment
from relaylite.reuse.rows import common_length

ROWS = rows_of(range(100, 120), n_exact=12, position=50)
SPAN = Segment(7, 22, Kind.SPAN, ROWS, 5)


def test_k_is_rotated_from_where_it_was_computed_to_where_it_is_placed() -> None:
    assert SPAN.rotation == 7 - (50 + 5)
    assert Segment(55, 70, Kind.SPAN, ROWS, 5).rotation == 0
    assert Segment(7, 22, Kind.NEW).rotation == 0


def test_exact_rows_of_a_segment_are_those_that_lie_in_it() -> None:
    assert SPAN.n_exact == 7
    assert Segment(0, 4, Kind.PREFIX, ROWS, 5).n_exact == 4
    assert Segment(0, 4, Kind.PREFIX, ROWS, 14).n_exact == 0
    assert Segment(0, 4, Kind.NEW).n_exact == 0


@given(st.integers(0, 30), st.integers(0, 30))
def test_a_part_has_the_same_rows_at_the_same_positions(start: int, end: int) -> None:
    first, last = max(start, SPAN.start), min(end, SPAN.end)
    if first >= last:
        return
    part = SPAN.within(start, end)
    assert (part.start, part.end, part.kind, part.rotation) == (first, last, Kind.SPAN, SPAN.rotation)
    assert part.rows is ROWS and part.offset - SPAN.offset == first - SPAN.start


def test_new_segments_have_no_offset() -> None:
    assert Segment(3, 9, Kind.NEW).within(5, 20) == Segment(5, 9, Kind.NEW)
    assert SPAN.without_rows() == Segment(7, 22, Kind.NEW)


@given(st.lists(st.integers(0, 2), max_size=8), st.lists(st.integers(0, 2), max_size=8))
def test_common_length(a: list[int], b: list[int]) -> None:
    n = common_length(a, np.array(b, np.int32))
    assert a[:n] == b[:n] and (n == min(len(a), len(b)) or a[n] != b[n])
