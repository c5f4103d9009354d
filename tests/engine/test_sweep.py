"""Relaying: everything selected is `full`, nothing selected is `naive`, more is nearer; spans of every size, order and place; chains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.live_engine import LiveEngine, Taken, changed, difference, divergence, opened, plan_of
from support.tiny_models import write_model

from relaylite.engine import sweep
from relaylite.engine.sweep import PROBES
from relaylite.errors import ModelError
from relaylite.metrics import CellMap
from relaylite.reuse import selection
from relaylite.reuse.plan import Kind, Plan
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import NAIVE, RELAY, Policy
from relaylite.reuse.profile import DETECTORS, RelayParameters
from relaylite.reuse.rows import RowLayout, Rows
from relaylite.store import Store

ROUNDING = 2e-2  # what is not recomputed, or wrongly, is off by 0.1 and more
N_LAYER = 4
BY_ATTENTION = changed({"l_end": N_LAYER})
BY_VALUE = changed({"l_det": 2, "l_end": N_LAYER, "detector": "value"})
EVERYTHING = {
    "attention": BY_ATTENTION,
    "value-1": changed({"l_det": 1, "l_end": N_LAYER, "detector": "value"}),
    "value-2": BY_VALUE,
    "attention-attended": changed({"l_end": N_LAYER, "attended": 1.0}),
    "value-attended": changed({"l_det": 2, "l_end": N_LAYER, "detector": "value", "attended": 0.5}),
}

Layout = Callable[[LiveEngine, Policy], Plan]


def one_span(live: LiveEngine, policy: Policy) -> Plan:
    return plan_of(policy, live.tokens(30, 1), Taken(live.written(), 24), live.tokens(7, 2))


def at_the_start(live: LiveEngine, policy: Policy) -> Plan:
    return plan_of(policy, Taken(live.written(), 24), live.tokens(7, 2))


def whole_prompt_but_the_last(live: LiveEngine, policy: Policy) -> Plan:
    return plan_of(policy, Taken(live.written(), 24), [33])


def moved_back(live: LiveEngine, policy: Policy) -> Plan:
    return plan_of(policy, live.tokens(5, 1), Taken(live.written(), 24), live.tokens(7, 2))


def moved_nowhere(live: LiveEngine, policy: Policy) -> Plan:
    return plan_of(policy, live.tokens(24, 1), Taken(live.written(), 24), live.tokens(7, 2))


def moved_far(live: LiveEngine, policy: Policy) -> Plan:
    return plan_of(policy, live.tokens(900, 1), Taken(live.written(), 24), live.tokens(7, 2))


def of_one_token(live: LiveEngine, policy: Policy) -> Plan:
    return plan_of(policy, live.tokens(9, 1), Taken(live.written(), 30, 1), live.tokens(7, 2))


def single_new_tokens_between(live: LiveEngine, policy: Policy) -> Plan:
    rows = live.written()
    return plan_of(policy, [40], Taken(rows, 24, 9), [41], Taken(rows, 40, 11), [42])


def back_to_back(live: LiveEngine, policy: Policy) -> Plan:
    one, other = live.written(seed=0), live.written(seed=1)
    return plan_of(policy, live.tokens(9, 1), Taken(one, 24), Taken(other, 24), live.tokens(7, 2))


def twice_the_same(live: LiveEngine, policy: Policy) -> Plan:
    rows = live.written()
    return plan_of(policy, live.tokens(9, 1), Taken(rows, 24), live.tokens(3, 3), Taken(rows, 24), live.tokens(7, 2))


def four_reversed(live: LiveEngine, policy: Policy) -> Plan:
    rows = [live.written(10, 20, seed) for seed in range(4)]
    spans = [part for one in reversed(rows) for part in (live.tokens(4, 9), Taken(one, 10))]
    return plan_of(policy, *spans, live.tokens(7, 2))


def longer_than_a_batch(live: LiveEngine, policy: Policy) -> Plan:
    return plan_of(policy, live.tokens(30, 1), Taken(live.full_rows(live.tokens(640)), 20), live.tokens(7, 2))


def batches_of_new_tokens(live: LiveEngine, policy: Policy) -> Plan:
    return plan_of(policy, live.tokens(520, 1), Taken(live.written(), 24), live.tokens(530, 2))


def behind_a_prefix(live: LiveEngine, policy: Policy) -> Plan:
    prefix = live.full_rows(live.tokens(20, 1))
    return plan_of(policy, Taken(prefix, kind=Kind.PREFIX), live.tokens(5, 3), Taken(live.written(), 24), live.tokens(7, 2))


LAYOUTS = [
    one_span, at_the_start, whole_prompt_but_the_last, moved_back, moved_nowhere, moved_far, of_one_token, single_new_tokens_between,
    back_to_back, twice_the_same, four_reversed, longer_than_a_batch, batches_of_new_tokens, behind_a_prefix,
]  # fmt: skip


def test_every_detector_that_a_profile_may_name_has_a_way_to_probe() -> None:
    assert set(PROBES) == set(DETECTORS)


@pytest.mark.parametrize("parameters", EVERYTHING.values(), ids=EVERYTHING)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_with_everything_selected_relay_is_full(layout: Layout, parameters: RelayParameters, tiny: LiveEngine) -> None:
    tiny.relay_by(parameters)
    plan = layout(tiny, RELAY)
    logits = tiny.logits_of(plan)
    rows = tiny.engine.harvest("")
    assert difference(logits, tiny.full(plan.tokens)) < ROUNDING
    assert tiny.errors(rows, tiny.engine.harvest("")).max() < ROUNDING


@pytest.mark.parametrize("layout", LAYOUTS)
def test_with_every_token_forced_relay_is_full(layout: Layout, tiny: LiveEngine) -> None:
    tiny.relay_by(BY_ATTENTION, forced=lambda plan: plan.positions(Kind.SPAN))
    plan = layout(tiny, RELAY)
    assert difference(tiny.logits_of(plan), tiny.full(plan.tokens)) < ROUNDING


@pytest.mark.parametrize("start", [0, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_with_nothing_selected_relay_is_naive(layout: Layout, start: int, tiny: LiveEngine) -> None:
    tiny.relay_by(changed({"l_start": start, "l_det": start, "l_end": N_LAYER, "max_share": 0.0}))
    plan = layout(tiny, RELAY)
    prefill = tiny.prefill(plan)
    logits, rows = tiny.engine.logits(), tiny.engine.harvest("")
    tiny.prefill(layout(tiny, NAIVE))
    assert np.allclose(tiny.engine.logits(), logits, atol=1e-3) and difference(logits, tiny.engine.logits()) < 1e-4
    assert tiny.errors(rows, tiny.engine.harvest("")).max() < 1e-4
    assert prefill.cells.reuse_ratio == 1 and prefill.cells.recomputed_tokens == 0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_reused_rows_stand_at_their_new_positions(layout: Layout, tiny: LiveEngine) -> None:
    """K of layer 0 depends on the token and its position alone."""
    plan = layout(tiny, NAIVE)
    rows = tiny.rows(plan)
    expected = tiny.full_rows(plan.tokens)
    assert np.abs(tiny.k(rows, 0) - tiny.k(expected, 0)).max() < 5e-3
    assert np.abs(tiny.v(rows, 0) - tiny.v(expected, 0)).max() < 5e-3


@pytest.mark.parametrize("layout", [one_span, four_reversed, behind_a_prefix])
def test_the_live_sequence_grows_on_behind_a_relay(layout: Layout, tiny: LiveEngine) -> None:
    tiny.relay_by(BY_ATTENTION)
    plan = layout(tiny, RELAY)
    tiny.prefill(plan)
    behind = tiny.engine.force(tiny.tokens(20, 7))
    rows = tiny.engine.harvest("")
    tiny.full(plan.tokens)
    assert difference(behind[-1], tiny.engine.force(tiny.tokens(20, 7))[-1]) < ROUNDING
    assert tiny.errors(rows, tiny.engine.harvest("")).max() < ROUNDING


def test_fidelity_rises_with_the_share(tiny: LiveEngine) -> None:
    """By deviation alone: random weights have no reason to care where a span starts."""
    losses = []
    for share in (0.0, 0.25, 0.5, 1.0):
        tiny.relay_by(changed({"l_end": N_LAYER, "max_share": share, "lead": 0.0}))
        of_share = []
        for seed in range(4):
            plan = plan_of(RELAY, tiny.tokens(30, 100 + seed), Taken(tiny.written(seed=seed), 24), tiny.tokens(7, 200 + seed))
            logits = tiny.logits_of(plan)
            of_share.append(divergence(tiny.full(plan.tokens), logits))
        losses.append(np.mean(of_share))
    assert losses[0] > losses[1] > losses[2] > 10 * losses[3]


def test_deviation_chooses_better_than_its_opposite(tiny: LiveEngine) -> None:
    """A quarter of the tokens, those that deviate most against those that deviate least."""
    losses = {"most": 0.0, "least": 0.0}
    for seed in range(4):
        tiny.relay_by(changed({"l_end": N_LAYER, "max_share": 0.25}))
        plan = plan_of(RELAY, tiny.tokens(30, 100 + seed), Taken(tiny.written(seed=seed), 24), tiny.tokens(7, 200 + seed))
        deviation = tiny.prefill(plan).cells.deviation
        spans = plan.positions(Kind.SPAN)
        order = spans[np.argsort(deviation[spans])]
        for name, chosen in (("most", np.sort(order[-10:])), ("least", np.sort(order[:10]))):
            tiny.relay_by(BY_ATTENTION, forced=lambda _, chosen=chosen: chosen)
            logits = tiny.logits_of(plan)
            losses[name] += divergence(tiny.full(plan.tokens), logits)
    assert losses["most"] < losses["least"]


# what the prompt's last new tokens attend to


@pytest.fixture
def masses(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """The attention to each candidate that selections weighed by."""
    seen: list[np.ndarray] = []
    monkeypatch.setattr(sweep, "weighted", lambda scores, mass, power: seen.append(mass) or selection.weighted(scores, mass, power))
    return seen


def test_attention_weighs_by_what_new_tokens_pay_to_placed_rows(tiny: LiveEngine, masses: list[np.ndarray]) -> None:
    tiny.relay_by(
        changed({"l_start": 1, "l_det": 1, "l_end": N_LAYER, "attended": 1.0})
    )  # before rows are written: it says what to capture
    plan = one_span(tiny, RELAY)
    tiny.prefill(one_span(tiny, NAIVE))
    new, spans, n_readers = plan.positions(Kind.NEW), plan.positions(Kind.SPAN), len(plan.segments[-1])
    expected = mass_at(tiny, 1, new, plan, n_readers)
    tiny.prefill(plan)
    assert np.allclose(masses[0], expected[spans], rtol=ROUNDING, atol=1e-5)


@pytest.mark.parametrize(("layout", "n_last"), [(one_span, None), (longer_than_a_batch, 657 - 512)])
def test_value_weighs_by_what_new_tokens_pay_to_recomputed_rows(
    layout: Layout, n_last: int | None, tiny: LiveEngine, masses: list[np.ndarray]
) -> None:
    """Whatever stood in the slots before."""
    plan = layout(tiny, RELAY)
    tiny.full(plan.tokens)
    last = np.arange(len(plan.tokens), dtype=np.int32)[-n_last if n_last else 0 :]
    expected = mass_at(tiny, 2, last, plan, len(plan.segments[-1]))
    tiny.relay_by(changed({"l_det": 2, "l_end": N_LAYER, "detector": "value", "attended": 1.0, "max_share": 0.0}))
    for before in (3, 4):
        tiny.full(tiny.tokens(700, before))
        tiny.prefill(plan)
    for mass in masses:
        assert np.allclose(mass, expected[plan.positions(Kind.SPAN)], rtol=ROUNDING, atol=1e-5)


def mass_at(live: LiveEngine, layer: int, positions: np.ndarray, plan: Plan, n_readers: int) -> np.ndarray:
    cache = live.engine._sequence.cache
    assert cache is not None
    mass = cache.slice((0, layer), positions, tokens=plan.tokens[positions], write_end=layer + 1, n_probe=n_readers, want=("mass",)).mass
    assert mass is not None
    return mass


@pytest.mark.parametrize("where", [{"l_start": 1, "l_det": 1}, {"l_start": 1, "l_det": 2, "detector": "value"}])
def test_by_a_high_power_those_are_selected_that_are_attended_most(
    where: dict[str, Any], tiny: LiveEngine, masses: list[np.ndarray]
) -> None:
    tiny.relay_by(changed({**where, "l_end": N_LAYER, "max_share": 0.25, "attended": 60.0}))
    plan = one_span(tiny, RELAY)
    cells = tiny.prefill(plan).cells.cells
    spans = plan.positions(Kind.SPAN)
    most = np.sort(spans[np.argsort(masses[0])[-10:]])
    assert np.flatnonzero(cells[-1] == CellMap.RECOMPUTED).tolist() == most.tolist()


def test_not_more_than_the_last_new_tokens_are_asked(tiny: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, asked = tiny.engine._sequence.cache, []
    assert cache is not None
    run = cache.slice
    monkeypatch.setattr(cache, "slice", lambda *args, **named: asked.append((named["want"], named["n_probe"])) or run(*args, **named))
    tiny.relay_by(changed({"l_start": 1, "l_det": 1, "l_end": N_LAYER, "attended": 1.0}))
    tiny.prefill(plan_of(RELAY, tiny.tokens(30, 1), Taken(tiny.written(), 24), tiny.tokens(100, 2)))
    assert [n for want, n in asked if "mass" in want] == [sweep.N_READERS]


@pytest.mark.parametrize(("n_before", "weighs"), [(3, True), (30, False)])
def test_a_window_shorter_than_the_prompt_weighs_nothing(n_before: int, weighs: bool, tmp_path: Path, masses: list[np.ndarray]) -> None:
    """It would show no attention to what lies beyond."""
    with opened(write_model(tmp_path / "tiny.gguf", "gemma3", n_layer=3)) as live:
        cache = live.engine._sequence.cache
        assert cache is not None and cache.layers[1].n_window == 32
        live.relay_by(changed({"l_start": 1, "l_det": 1, "l_end": 3, "max_share": 0.5, "attended": 1.0}))
        cells = live.prefill(plan_of(RELAY, live.tokens(n_before, 1), Taken(live.written(8, 20), 8), live.tokens(7, 2))).cells
        assert bool(masses) == weighs and cells.recomputed_tokens == 10


# states


def test_tokens_without_captured_states_are_computed_from_their_ids(tiny: LiveEngine) -> None:
    tiny.relay_by(changed({"l_start": 2, "l_det": 2, "l_end": N_LAYER, "max_share": 0.0}))
    rows = tiny.written()
    states = {name: state.copy() for name, state in rows.states.items()}
    for state in states.values():
        state[30:34] = np.nan
    bare = Rows(rows.tokens, 0, rows.n_exact, rows.data, rows.layout, states)
    plan = plan_of(RELAY, tiny.tokens(30, 1), Taken(bare, 24), tiny.tokens(7, 2))
    cells = tiny.prefill(plan).cells
    recomputed = np.flatnonzero((cells.cells == CellMap.RECOMPUTED).all(axis=0)).tolist()
    assert recomputed == list(range(30 + 30 - 24, 30 + 34 - 24)) and cells.recomputed_tokens == 4
    states = tiny.engine.harvest("").states
    assert not any(np.isnan(state).any() for state in states.values())


def test_rows_that_know_no_states_are_computed_whole(tiny: LiveEngine) -> None:
    tiny.relay_by(changed({"l_start": 2, "l_det": 2, "l_end": N_LAYER, "max_share": 0.0}))
    rows = tiny.written()
    plan = plan_of(RELAY, tiny.tokens(30, 1), Taken(Rows(rows.tokens, 0, rows.n_exact, rows.data, rows.layout), 24), tiny.tokens(7, 2))
    assert difference(tiny.logits_of(plan), tiny.full(plan.tokens)) < ROUNDING


@pytest.mark.parametrize(
    "parameters",
    [changed({"l_start": 2, "l_det": 2, "l_end": N_LAYER}), changed({"l_start": 1, "l_det": 2, "l_end": 4, "detector": "value"})],
)
def test_states_stand_at_their_positions_after_every_kind_of_placing(parameters: RelayParameters, tiny: LiveEngine) -> None:
    """New tokens get the states that a full prefill sees, if they rest on nothing relayed; reused ones keep theirs."""
    tiny.relay_by(parameters)
    upstream = tiny.written()
    plan = plan_of(RELAY, tiny.tokens(30, 1), Taken(upstream, 24), tiny.tokens(7, 2))
    states = tiny.rows(plan).states
    expected = tiny.full_rows(plan.tokens).states
    for name, state in states.items():
        assert state.shape == expected[name].shape and not np.isnan(state).any()
        assert np.allclose(state[:30], expected[name][:30], atol=0.02)
        if name.startswith("l_in"):
            assert np.array_equal(state[30:70], upstream.states[name][24:])


def test_states_of_what_is_decoded_behind_a_relay_stand_at_their_positions(tiny: LiveEngine) -> None:
    parameters = changed({"l_start": 2, "l_det": 2, "l_end": N_LAYER})
    tiny.relay_by(parameters, forced=lambda plan: plan.positions(Kind.SPAN))
    plan = plan_of(RELAY, tiny.tokens(30, 1), Taken(tiny.written(), 24), tiny.tokens(7, 2))
    tiny.prefill(plan)
    for token in tiny.tokens(6, 3):
        tiny.engine.force([token])
    states = tiny.engine.harvest("").states
    expected = tiny.full_rows([*plan.tokens, *tiny.tokens(6, 3)]).states
    assert states.keys() == {"l_in-2", "attn-2"}
    for name, state in states.items():
        assert np.allclose(state[77:], expected[name][77:], atol=0.02)


def test_states_stand_at_their_positions_behind_a_prefix(tiny: LiveEngine) -> None:
    tiny.relay_by(changed({"l_start": 2, "l_det": 2, "l_end": N_LAYER}))
    tokens = tiny.tokens(60)
    rows = tiny.full_rows(tokens)
    tiny.full(tiny.tokens(8, seed=1))
    again = tiny.rows(plan_of(RELAY, Taken(rows, 0, 40, Kind.PREFIX), tokens[40:]))
    for name in rows.states:
        assert np.allclose(again.states[name], rows.states[name], atol=0.02)


# chains


@pytest.mark.parametrize("policy", [NAIVE, RELAY])
def test_the_fifth_agent_reuses_as_much_as_the_second(policy: Policy, tiny: LiveEngine) -> None:
    """Each agent reads its own instructions, and all answers before it in order."""
    tiny.relay_by(changed({"l_start": 1, "l_det": 1, "l_end": N_LAYER, "max_share": 0.2}))
    store = Store(tiny.engine.layout, 1 << 28)
    answers: list[list[int]] = []
    ratios = []
    for agent in range(5):
        glue = tiny.tokens(4, 77)
        prompt = tiny.tokens(10 + agent, agent) + [token for answer in answers for token in glue + answer] + glue
        plan = make_plan(prompt, store, policy)
        prefill = tiny.prefill(plan)
        if agent:
            assert plan.count(Kind.SPAN) >= sum(map(len, answers)) - len(answers), "an answer was not found again"
            ratios.append(prefill.cells.reuse_ratio)
        answer = tiny.tokens(48, 1000 + agent)
        for token in answer:
            tiny.engine.force([token])
        store.put(tiny.engine.harvest(f"agent {agent}"))
        answers.append(answer)
    assert len(ratios) == 4 and min(ratios) > ratios[0] - 0.03


def test_a_chain_with_everything_selected_stays_full(tiny: LiveEngine) -> None:
    """Rows that rest on relayed ones are relayed again, three times over."""
    tiny.relay_by(BY_ATTENTION)
    rows = tiny.written()
    for step in range(3):
        plan = plan_of(RELAY, tiny.tokens(5 + step, step), Taken(rows, 10), tiny.tokens(9, 20 + step))
        logits = tiny.logits_of(plan)
        rows = tiny.engine.harvest("")
        assert difference(logits, tiny.full(plan.tokens)) < ROUNDING
        assert len(rows.states) and not any(np.isnan(state).any() for state in rows.states.values())


# what is refused


@pytest.mark.parametrize("change", ["fingerprint", "wider", "fewer layers"])
def test_rows_of_another_model_are_refused_before_anything_changes(change: str, tiny: LiveEngine) -> None:
    tokens = tiny.tokens(20)
    before = tiny.full_rows(tokens)
    layout = before.layout
    other = {
        "fingerprint": RowLayout(layout.k_bytes, layout.v_bytes, "another"),
        "wider": RowLayout(tuple(2 * n for n in layout.k_bytes), layout.v_bytes, layout.fingerprint),
        "fewer layers": RowLayout(layout.k_bytes[1:], layout.v_bytes[1:], layout.fingerprint),
    }[change]
    foreign = Rows(np.array(tokens, np.int32), 0, 20, np.zeros(20 * other.token_bytes, np.uint8), other)
    for kind in (Kind.SPAN, Kind.PREFIX):
        with pytest.raises(ModelError, match="another model"):
            tiny.prefill(plan_of(NAIVE, Taken(foreign, kind=kind), [30]))
    assert np.array_equal(tiny.engine.harvest("").data, before.data)
