"""Any order of appending, decoding and truncating leaves each position's row where it belongs."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.live_model import LiveModel, Part

from relaylite.errors import NativeError

N_RUN = 40

segments = st.tuples(st.integers(0, N_RUN - 1), st.integers(1, N_RUN)).map(lambda s: (s[0], min(s[1], N_RUN - s[0])))
steps = st.one_of(
    st.tuples(st.just("append"), st.lists(segments, min_size=1, max_size=6)),
    st.tuples(st.just("decode"), st.integers(1, 100)),
    st.tuples(st.just("truncate"), st.floats(0, 1)),
)


def row_bytes(live: LiveModel) -> list[bytes]:
    """All rows of each position."""
    rows = live.live_rows()
    parts = [part(il) for part in (rows.k, rows.v) for il in range(live.n_layer)]
    return [b"".join(part[i].tobytes() for part in parts) for i in range(len(rows))]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(steps, max_size=12))
def test_every_row_stays_where_it_was_put(tiny: LiveModel, plan: list[tuple[str, object]]) -> None:
    tiny.cache.truncate(0)
    run = tiny.random_rows(N_RUN)
    tiny.append([Part(N_RUN, run)])
    of_run = row_bytes(tiny)
    tiny.cache.truncate(0)
    expected: list[bytes] = []
    for action, what in plan:
        if action == "append" and isinstance(what, list):
            rows = [of_run[first + i] for first, n in what for i in range(n)]
            if len(expected) + len(rows) > tiny.cache.info.n_slots:
                with pytest.raises(NativeError, match="do not fit"):
                    tiny.append([Part(n, run, first=first) for first, n in what])
            else:
                tiny.append([Part(n, run, first=first) for first, n in what])
                expected += rows
        elif action == "decode" and isinstance(what, int):
            n = min(what, tiny.cache.info.n_slots - len(expected))
            if n:
                tiny.decode(tiny.tokens(n))
                expected += row_bytes(tiny)[len(expected) :]
        elif isinstance(what, float):
            expected = expected[: int(what * len(expected))]
            tiny.cache.truncate(len(expected))
        assert row_bytes(tiny) == expected
