"""What `--policies` names: our policies, and baselines as values of the same type."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.sample_rows import rows_of

from relaylite.bench.methods import captures_of, first_tokens, parse_method, parse_methods, profiles_of, random_tokens
from relaylite.errors import UsageError
from relaylite.reuse.plan import Kind, Plan, Segment
from relaylite.reuse.policies import FIDELITIES, FULL, NAIVE
from relaylite.reuse.profile import Profile, RelayParameters, default_profile
from relaylite.store.codec import CODECS

N_LAYER = 12


def plan_with_spans() -> Plan:
    """New [0, 4), spans [4, 14) and [14, 17), new [17, 19)."""
    rows = rows_of(range(13))
    spans = [Segment(4, 14, Kind.SPAN, rows), Segment(14, 17, Kind.SPAN, rows, 10)]
    return Plan(np.arange(19, dtype=np.int32), (Segment(0, 4, Kind.NEW), *spans, Segment(17, 19, Kind.NEW)), NAIVE)


def profile_of(parameters: RelayParameters, **others: RelayParameters) -> Profile:
    """A measured profile with the same parameters for every fidelity but `others`."""
    return Profile("x", {**dict.fromkeys(FIDELITIES, parameters), **others}, is_measured=True)  # type: ignore[dict-item]


def test_full_and_naive_come_first_and_each_once() -> None:
    labels = [method.label for method in parse_methods("relay,prefix, naive,relay:careful,relay")]
    assert labels == ["full", "naive", "relay", "prefix", "relay:careful", "full again"]


def test_cacheblend_detects_at_layer_1_and_recomputes_all_layers() -> None:
    method = parse_method("cacheblend:0.15")
    measured = default_profile("x", N_LAYER)
    p = method.profile(measured, N_LAYER).parameters(method.policy)
    assert p is not None and (p.l_start, p.l_det, p.l_end, p.detector, p.max_share) == (0, 1, N_LAYER, "value", 0.15)
    assert parse_method("relay").profile(measured, N_LAYER) is measured
    with pytest.raises(UsageError, match=r"cacheblend:0\.15.* 1 layers"):
        method.profile(default_profile("x", 1), 1)


def test_epic_takes_the_first_tokens_of_each_span() -> None:
    assert first_tokens(plan_with_spans(), 4).tolist() == [4, 5, 6, 7, 14, 15, 16]
    forced = parse_method("epic:2").forced
    assert forced is not None and forced(plan_with_spans()).tolist() == [4, 5, 14, 15]


def test_random_takes_a_share_of_span_tokens_the_same_each_time() -> None:
    chosen = random_tokens(plan_with_spans(), 0.4)
    assert len(chosen) == 5 and set(chosen) < set(range(4, 17)) and (np.diff(chosen) > 0).all()
    assert chosen.tolist() == random_tokens(plan_with_spans(), 0.4).tolist()


def test_everything_takes_every_span_token() -> None:
    forced = parse_method("everything").forced
    assert forced is not None and forced(plan_with_spans()).tolist() == list(range(4, 17))


def test_exact_policies_read_no_smaller_form() -> None:
    assert parse_method("prefix@plain").codec is CODECS["plain"]
    with pytest.raises(UsageError, match="prefix takes over exact rows and no others, so none of q8"):
        parse_method("prefix@q8")


def test_batches_take_nothing_over() -> None:
    method = parse_method("batches:64")
    assert method.policy == FULL and method.n_batch == 64 and method.forced is None


@pytest.mark.parametrize("name", ["relay", "relay:careful", "naive", "epic:4"])
def test_any_method_can_read_files_of_any_form(name: str) -> None:
    method = parse_method(f"{name}@q6-q4")
    assert method.label == f"{name}@q6-q4" and method.codec is CODECS["q6-q4"]
    assert method.policy == parse_method(name).policy and parse_method(name).codec is None
    with pytest.raises(UsageError, match="unknown codec of stored rows in 'relay@zip'; known: plain, q8"):
        parse_method("relay@zip")


def test_parameters_of_the_profile_can_be_changed() -> None:
    measured = default_profile("x", N_LAYER)
    method = parse_method("relay:careful+lead=0+max_share=0.5+l_start=3+l_det=3@q8")
    assert method.label == "relay:careful+lead=0+max_share=0.5+l_start=3+l_det=3@q8" and method.codec is CODECS["q8"]
    profile = method.profile(measured, N_LAYER)
    changed = profile.parameters(method.policy)
    assert changed == replace(measured.fidelities["careful"], lead=0, max_share=0.5, l_start=3, l_det=3)
    assert captures_of([profile]) == {"l_in-3": "l_out-2", "attn-3": "kqv_out-3"}


@pytest.mark.parametrize(
    "name",
    [
        "relay+size=2",
        "relay+lead",
        "relay+lead=x",
        "relay+l_start=3",
        "relay+",
        "naive+lead=0",
        "epic:4+lead=0",
        f"relay+l_end={N_LAYER + 1}",
    ],
)
def test_what_cannot_be_changed_is_one_line(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_method(name).profile(default_profile("x", N_LAYER), N_LAYER)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["relay+size=2", "relay+lead", "relay+lead=x", "relay+attended=all", "relay+l_start=0.5", "relay+", "naive+lead=0"]
)
def test_what_no_model_allows_is_said_without_one(name: str) -> None:
    with pytest.raises(UsageError):
        parse_method(name)


def test_changes_are_checked_against_the_profile_of_the_model_that_is_measured() -> None:
    by_attention = profile_of(RelayParameters(2, 2, N_LAYER, "attention"))
    by_value = profile_of(RelayParameters(2, 3, N_LAYER, "value"))
    to_value, to_attention = parse_method("relay+l_start=0+l_det=1"), parse_method("relay+l_start=3+l_det=3")
    assert to_value.profile(by_value, N_LAYER).fidelities["balanced"] == RelayParameters(0, 1, N_LAYER, "value")
    assert to_attention.profile(by_attention, N_LAYER).fidelities["balanced"] == RelayParameters(3, 3, N_LAYER, "attention")
    for method, measured, detector in ((to_value, by_attention, "attention"), (to_attention, by_value, "value")):
        with pytest.raises(UsageError, match=f"does not fit this model's profile .*detector {detector}") as caught:
            method.profile(measured, N_LAYER)
        assert method.label in str(caught.value) and "\n" not in str(caught.value)


def test_only_the_fidelity_of_the_policy_has_to_fit() -> None:
    measured = profile_of(RelayParameters(2, 3, N_LAYER, "value"), fast=RelayParameters(2, 2, N_LAYER, "attention"))
    assert parse_method("relay+l_start=0+l_det=1").profile(measured, N_LAYER).fidelities["balanced"].l_det == 1
    with pytest.raises(UsageError, match="detector attention"):
        parse_method("relay:fast+l_start=0+l_det=1").profile(measured, N_LAYER)


def test_rows_carry_the_states_of_every_method() -> None:
    measured = default_profile("x", N_LAYER)
    profiles = profiles_of(parse_methods("relay,cacheblend:0.2"), measured, N_LAYER)
    assert list(profiles) == ["full", "naive", "relay", "cacheblend:0.2", "full again"]
    assert captures_of(profiles.values()) == measured.captures
    assert captures_of([profiles["cacheblend:0.2"]]) == {}


@pytest.mark.parametrize("name", ["nothing", "epic", "epic:0", "epic:x", "batches:0", "random:2", "cacheblend:-1", "relay:epic"])
def test_unknown_ones_are_named_with_what_is_known(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_methods(f"relay,{name}")
    assert name in str(caught.value) and "\n" not in str(caught.value)
