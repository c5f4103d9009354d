"""The map of a prompt's cells says what really happened in the cache: the cells that it calls recomputed or new were written, the others
hold what was placed, byte for byte. Rows of noise are placed, so that nothing written can be what stood there before."""

from __future__ import annotations

import numpy as np
import pytest
from support.live_engine import LiveEngine, Taken, changed, plan_of

from relaylite.metrics import CellMap
from relaylite.reuse.plan import Kind, Plan
from relaylite.reuse.policies import FULL, NAIVE, PREFIX, RELAY, Policy
from relaylite.reuse.profile import RelayParameters
from relaylite.reuse.rows import Rows

N_LAYER = 4
ATTENTION = [
    changed({"l_start": start, "l_det": start, "l_end": end, "max_share": 0.4}) for start in range(3) for end in range(start, N_LAYER + 1)
]
VALUE = [
    changed({"l_start": start, "l_det": det, "l_end": end, "max_share": 0.4, "detector": "value"})
    for start, det, end in [(0, 1, 1), (0, 1, 3), (0, 2, 4), (1, 2, 3), (1, 3, 3), (1, 3, 4), (2, 3, 4)]
]


def noisy(rows: Rows, seed: int) -> Rows:
    """Small random numbers for rows; tokens and states as they are."""
    noise = np.random.default_rng(seed).standard_normal(rows.data.size // 4).astype(np.float32)
    return Rows(rows.tokens, rows.position, rows.n_exact, noise.view(np.uint8), rows.layout, rows.states)


def written(live: LiveEngine, plan: Plan) -> np.ndarray:
    """bool `[n_layer, n]`: cells that do not hold what the plan placed. Its spans must not move, so that K is not rotated."""
    left = live.engine.harvest("")
    is_written = np.ones((live.n_layer, len(plan.tokens)), bool)
    for segment in plan.segments:
        if segment.rows is None:
            continue
        placed = segment.rows.slice(segment.offset, segment.offset + len(segment))
        there = left.slice(segment.start, segment.end)
        for il in range(live.n_layer):
            of_k, of_v = ((a(il) != b(il)).any(axis=1) for a, b in ((there.k, placed.k), (there.v, placed.v)))
            assert np.array_equal(of_k, of_v), "K was written without V"
            is_written[il, segment.start : segment.end] = of_k
    return is_written


def prompt(live: LiveEngine, policy: Policy) -> Plan:
    """Prefix of 10, new until 24, a span of 40, one new token, another span, and an end."""
    start = live.full_rows(live.tokens(10, 1))
    first = live.written()
    second = live.written(65, 20, seed=3)
    return plan_of(
        policy, Taken(noisy(start, 0), kind=Kind.PREFIX), live.tokens(14, 2), Taken(noisy(first, 1), 24), live.tokens(1, 3),
        Taken(noisy(second, 2), 65), live.tokens(5, 4),
    )  # fmt: skip


@pytest.mark.parametrize("parameters", ATTENTION + VALUE, ids=lambda p: f"{p.detector}-{p.l_start}-{p.l_det}-{p.l_end}")
def test_relay_wrote_what_the_map_says(parameters: RelayParameters, tiny: LiveEngine) -> None:
    tiny.relay_by(parameters)
    plan = prompt(tiny, RELAY)
    cells = tiny.prefill(plan).cells
    assert np.array_equal(written(tiny, plan), cells.cells >= CellMap.RECOMPUTED)
    assert cells.recomputed_tokens > 0 and cells.reuse_ratio < 1
    for segment in plan.segments:
        kinds = {Kind.PREFIX: {CellMap.PREFIX}, Kind.NEW: {CellMap.NEW}, Kind.SPAN: {CellMap.REUSED, CellMap.RECOMPUTED}}[segment.kind]
        assert set(np.unique(cells.cells[:, segment.start : segment.end]).tolist()) <= kinds


def test_selected_tokens_are_at_most_the_share(tiny: LiveEngine) -> None:
    tiny.relay_by(changed({"l_end": N_LAYER, "max_share": 0.25}))
    cells = tiny.prefill(prompt(tiny, RELAY)).cells
    assert cells.recomputed_tokens == 15
    assert cells.reuse_ratio == 0.75


def test_deviation_is_measured_on_span_tokens_alone(tiny: LiveEngine) -> None:
    tiny.relay_by(changed({"l_end": N_LAYER}))
    plan = prompt(tiny, RELAY)
    deviation = tiny.prefill(plan).cells.deviation
    assert np.flatnonzero(~np.isnan(deviation)).tolist() == plan.positions(Kind.SPAN).tolist()


def test_forced_tokens_are_written_in_every_layer(tiny: LiveEngine) -> None:
    forced = np.array([25, 30, 70], np.int32)
    tiny.relay_by(changed({"l_end": N_LAYER}), forced=lambda plan: forced)
    plan = prompt(tiny, RELAY)
    cells = tiny.prefill(plan).cells
    assert np.array_equal(written(tiny, plan), cells.cells >= CellMap.RECOMPUTED)
    assert np.flatnonzero((cells.cells == CellMap.RECOMPUTED).all(axis=0)).tolist() == forced.tolist()


def test_tokens_without_states_are_written_in_every_layer(tiny: LiveEngine) -> None:
    tiny.relay_by(changed({"l_start": 2, "l_det": 2, "l_end": N_LAYER, "max_share": 0.1}))
    plan = prompt(tiny, RELAY)
    first = next(plan.of(Kind.SPAN))
    assert first.rows is not None
    for state in first.rows.states.values():
        state[first.offset + 3] = np.nan
    cells = tiny.prefill(plan).cells
    assert (cells.cells[:, 24 + 3] == CellMap.RECOMPUTED).all()
    assert np.array_equal(written(tiny, plan), cells.cells >= CellMap.RECOMPUTED)


@pytest.mark.parametrize("policy", [FULL, PREFIX, NAIVE])
def test_policies_that_repair_nothing(policy: Policy, tiny: LiveEngine) -> None:
    plan = prompt(tiny, NAIVE)
    if policy is FULL:
        plan = plan_of(FULL, plan.tokens)
    elif policy is PREFIX:
        first = plan.segments[0]
        assert first.rows is not None
        plan = plan_of(PREFIX, Taken(first.rows, kind=Kind.PREFIX), plan.tokens[10:])
    cells = tiny.prefill(plan).cells
    assert np.array_equal(written(tiny, plan), cells.cells == CellMap.NEW)
    assert cells.recomputed_tokens == 0 and np.isnan(cells.deviation).all()
