"""What calibration tries, what it finds best, and that what it finds is what later runs load."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relaylite.bench.figures import text
from relaylite.bench.tasks import Task
from relaylite.calibrate import grid
from relaylite.calibrate.calibration import Calibration, CalibrationOptions
from relaylite.calibrate.similarity import Similarity, compare
from relaylite.calibrate.trial import MARGIN, TARGETS, Trial, best_of, front, not_worse, promising
from relaylite.engine.engine import Engine
from relaylite.errors import Cancelled, UsageError
from relaylite.reuse.policies import FIDELITIES, Fidelity
from relaylite.reuse.profile import RelayParameters, load_profile, save_profile
from relaylite.reuse.rows import RowLayout, Rows

TASKS = [Task("plain", f"Write about the number {n} and what stands next to it.") for n in range(8)]
OPTIONS = CalibrationOptions(n_chains=4, seconds=float("inf"), max_tokens=40, n_follow=4)


@pytest.fixture
def small_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few parameters, so that a whole calibration takes little."""
    monkeypatch.setattr(grid, "DEPTHS", (0.0, 0.25))
    monkeypatch.setattr(grid, "RUNS", ((0.0, 0.25),))
    monkeypatch.setattr(grid, "AMOUNTS", (0.05, 0.18, 0.3))
    monkeypatch.setattr(grid, "ATTENDED", (0.0, 1.0))


@given(st.integers(1, 126))
def test_what_is_tried_fits_any_depth(n_layer: int) -> None:
    tried = grid.ranges(n_layer)
    assert len(tried) <= 14, "each costs time on every prompt"
    assert tried and len(set(tried)) == len(tried)
    finer = grid.amounts(tried[:2], n_layer)
    assert len(set(finer)) == len(finer) > len(tried[:2])
    assert all(p.fits(n_layer) for p in [*tried, *finer])
    assert len(grid.amounts(tried[-3:], n_layer)) <= 33
    assert {p.attended for p in finer} == set(grid.ATTENDED) and max(p.max_share for p in finer) <= 0.2


def test_finer_parameters_keep_their_ranges() -> None:
    best = RelayParameters(2, 3, 12, "value")
    assert {(p.l_start, p.l_det, p.detector) for p in grid.amounts([best], 12)} == {(2, 3, "value")}


def test_middle_layers_are_tried_with_the_attention_of_the_suffix() -> None:
    tried = {(p.l_start, p.l_det, p.detector, p.attended) for p in grid.ranges(24)}
    assert {(3, 5, "value", 0.0), (3, 8, "value", 0.0), (3, 8, "value", 1.0), (5, 5, "attention", 1.0)} <= tried
    assert (2, 2, "attention", 1.0) not in tried


def trial(cost: float, mean: float, first: float, start: int = 0, share: float | None = None) -> Trial:
    """What costs more selects more, unless `share` says otherwise."""
    parameters = RelayParameters(start, start + 1, 4, "value", max_share=cost / 100 if share is None else share)
    return Trial(parameters, cost, mean, first, 0.1, 8)


def test_each_fidelity_is_the_cheapest_within_its_target() -> None:
    fast, balanced, careful = (
        trial(cost, 0.99 * MARGIN * mean, 0.99 * MARGIN * first) for cost, (mean, first) in zip((2, 3, 4), TARGETS.values(), strict=True)
    )
    dear = trial(9, 0.0, 0.0)
    assert best_of([dear, careful, balanced, fast]) == {"fast": fast, "balanced": balanced, "careful": careful}
    assert best_of([dear, fast]) == {"fast": fast, "balanced": dear, "careful": dear}


def test_fidelities_differ_in_what_they_select_even_if_one_reaches_every_target() -> None:
    less, good, more = trial(1, 0.6, 0.6), trial(2, 0.1, 0.1), trial(3, 0.09, 0.09)
    assert best_of([good, more, less]) == {"fast": less, "balanced": good, "careful": more}
    unlucky = trial(2.5, 0.11, 0.11)
    assert best_of([good, unlucky, more, less])["careful"] == more
    assert best_of([good, unlucky, less])["careful"] == unlucky


def of_fidelities(fast: Trial, balanced: Trial, careful: Trial) -> dict[Fidelity, Trial]:
    return {"fast": fast, "balanced": balanced, "careful": careful}


DEFAULT = of_fidelities(trial(1.2, 0.4, 0.4, share=0.05), trial(2, 0.25, 0.25, share=0.14), trial(3, 0.15, 0.15, share=0.23))


def test_the_default_is_kept_where_it_loses_less_or_does_the_job_sooner() -> None:
    better = of_fidelities(trial(1.1, 0.3, 0.3, share=0.04), trial(1.9, 0.2, 0.2, share=0.1), trial(2.9, 0.1, 0.1, share=0.2))
    assert not_worse(better, DEFAULT) == better and not_worse(DEFAULT, DEFAULT) == DEFAULT
    worse = replace(better["balanced"], kl_mean_share=0.26, kl_first_share=0.26)
    slower = replace(better["balanced"], cost=2.1)
    for poor in (worse, slower):
        assert not_worse({**better, "balanced": poor}, DEFAULT) == {**better, "balanced": DEFAULT["balanced"]}


def test_what_comes_nearer_to_its_target_may_take_more_time() -> None:
    default = of_fidelities(trial(1.3, 0.58, 0.7, share=0.05), trial(1.9, 0.38, 0.41, share=0.14), trial(2.2, 0.32, 0.38, share=0.23))
    found = of_fidelities(trial(1.9, 0.3, 0.3, share=0.05), trial(2.1, 0.21, 0.27, share=0.1), trial(2.4, 0.1, 0.1, share=0.2))
    assert not_worse(found, default) == found


def test_a_mixture_that_selects_in_no_order_is_the_default() -> None:
    found = of_fidelities(trial(1.1, 0.1, 0.1, share=0.14), trial(3, 0.4, 0.4, share=0.2), trial(4, 0.4, 0.4, share=0.3))
    assert not_worse(found, DEFAULT) == DEFAULT


@given(st.lists(st.tuples(st.floats(1, 9), st.floats(0, 1.2), st.floats(0, 1.2), st.floats(0, 1)), min_size=3, max_size=3))
def test_what_is_kept_loses_no_more_than_the_default(figures: list[tuple[float, float, float, float]]) -> None:
    kept = not_worse(of_fidelities(*(trial(cost, mean, first, share=share) for cost, mean, first, share in figures)), DEFAULT)
    assert all(kept[fidelity].loss <= DEFAULT[fidelity].loss for fidelity in FIDELITIES)


def test_what_few_prompts_show_of_the_first_token_counts_little() -> None:
    lucky, steady = trial(1, 0.6, 0.05), trial(1, 0.4, 0.4)
    assert lucky.loss > steady.loss and replace(lucky, n=1000).loss < replace(steady, n=1000).loss
    assert best_of([lucky, steady])["balanced"] == steady


def test_where_no_trial_is_within_the_target_the_one_that_loses_least_is_taken() -> None:
    poor, worse = trial(3, 0.95, 0.9), trial(1, 1.2, 1.0)
    assert best_of([worse, poor]) == {"fast": worse, "balanced": poor, "careful": poor}  # fast selects less


def test_all_fidelities_start_in_one_layer() -> None:
    cheap_but_lossy, careful = trial(1.5, 0.4, 0.4, start=1), trial(4, 0.1, 0.1, start=2)
    fast = trial(2, 0.4, 0.4, start=2)
    assert best_of([cheap_but_lossy, careful, fast]) == {"fast": fast, "balanced": careful, "careful": careful}
    assert set(best_of([cheap_but_lossy, trial(99, 0.1, 0.1, start=2)]).values()) == {cheap_but_lossy}


@given(st.lists(st.tuples(st.floats(1, 20), st.floats(0, 1.2), st.floats(0, 1.2)), min_size=1, max_size=30))
def test_a_more_careful_fidelity_is_never_cheaper(figures: list[tuple[float, float, float]]) -> None:
    best = best_of([trial(*each) for each in figures])
    within = [best[fidelity] for fidelity in FIDELITIES if best[fidelity].strain(fidelity) <= MARGIN]
    assert [each.cost for each in within] == sorted(each.cost for each in within)


def test_the_front_holds_what_no_other_beats() -> None:
    a, b, c, d = trial(1, 0.9, 0.9), trial(2, 0.5, 0.5), trial(3, 0.6, 0.6), trial(4, 0.1, 0.1)
    assert front([d, c, b, a]) == [a, b, d]
    assert promising([a, b, c, d], 2) == [d, a]


def rows_of(values: np.ndarray) -> Rows:
    """One layer, rows of F16 `[n, 4]` as K; V are the same turned around."""
    k, v = values.astype(np.float16), values[:, ::-1].astype(np.float16)
    data = np.concatenate([k.view(np.uint8).ravel(), np.ascontiguousarray(v).view(np.uint8).ravel()])
    return Rows(np.zeros(len(values), np.int32), 0, 0, data, RowLayout((8,), (8,), "test"))


def test_similarity_is_the_mean_cosine_of_the_tokens_asked_for() -> None:
    a = np.array([[0.0, 0, 1, 0], [1, 0, 0, 0], [1, 1, 0, 0]])
    b = np.array([[0.0, 0, -1, 0], [2, 0, 0, 0], [1, 0, 0, 0]])
    found = compare(rows_of(a), rows_of(b), np.array([1, 2], np.int32))
    assert found.k == pytest.approx([(1 + 2**-0.5) / 2], abs=1e-3) and found.v == pytest.approx(found.k, abs=1e-3)
    assert compare(rows_of(a), rows_of(b), np.array([0], np.int32)).k == pytest.approx([-1])


def test_a_curve_is_u_shaped_if_it_dips_in_the_middle() -> None:
    depth = np.linspace(-1, 1, 12)
    assert Similarity(0.98 + 0.02 * depth**2, depth).has_dip()
    assert not Similarity(1 - 0.01 * (depth + 1), depth).has_dip()
    assert not Similarity(np.ones(12), depth).has_dip()


@pytest.mark.usefixtures("small_grid")
def test_when_time_is_up_two_prompts_a_stage_are_measured(engine: Engine) -> None:
    findings = Calibration(engine, TASKS, replace(OPTIONS, seconds=0.0)).run()
    assert {each.n for each in findings.trials} <= {2, 4}  # 4: what both stages tried
    assert {each.n for each in (*findings.held_out.values(), *findings.default.values())} == {2}


@pytest.mark.usefixtures("small_grid")
def test_what_was_found_is_what_later_runs_load(engine: Engine) -> None:
    before, steps = engine.profile, []
    findings = Calibration(engine, TASKS, OPTIONS).run(lambda done, what: steps.append(done))
    assert steps == sorted(steps) and steps[0] == 0 and steps[-1] == 1
    assert engine.profile is before and findings.n_prompts >= 4
    assert set(findings.best.values()) <= {*findings.trials, *findings.default.values()}
    for fidelity, each in findings.best.items():
        is_found = each.parameters == findings.held_out[fidelity].parameters
        assert is_found or each.parameters == findings.default[fidelity].parameters
        assert not is_found or findings.held_out[fidelity].loss <= findings.default[fidelity].loss
    selected = [findings.best[fidelity].parameters.max_share for fidelity in FIDELITIES]
    assert selected == sorted(set(selected))
    assert all(0 <= c.selected_share <= 1 and c.cost > 0 for c in findings.trials)
    assert findings.similarity.k[0] == pytest.approx(1, abs=1e-3)  # layer 0 rests on the token alone, once K is rotated
    assert any("x K, rotated" in line for line in text(findings.similarity.figure()))
    save_profile(findings.profile(engine))
    loaded = load_profile(engine.profile.fingerprint, engine.info.n_layer)
    assert loaded.is_measured and loaded.fidelities == {fidelity: each.parameters for fidelity, each in findings.best.items()}
    assert loaded.measured["n_prompts"] == findings.n_prompts


@pytest.mark.usefixtures("small_grid")
def test_cancelling_before_and_while_it_runs(engine: Engine) -> None:
    calibration = Calibration(engine, TASKS, OPTIONS)

    def stop_in_the_middle(done: float, what: str) -> None:
        if done > 0.2:
            calibration.cancel()

    with pytest.raises(Cancelled):
        calibration.run(stop_in_the_middle)
    with pytest.raises(Cancelled):
        calibration.run()


def test_a_model_that_writes_too_little_is_said(engine: Engine) -> None:
    with pytest.raises(UsageError, match="writes too little"):
        Calibration(engine, TASKS, CalibrationOptions(n_chains=4, max_tokens=8, n_follow=2)).run()
