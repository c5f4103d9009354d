"""What `--policies` names: our policies, and baselines as values of the same type."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.sample_rows import rows_of

from relaylite.bench.methods import captures_of, first_tokens, parse_method, parse_methods, random_tokens
from relaylite.errors import UsageError
from relaylite.reuse.plan import Kind, Plan, Segment
from relaylite.reuse.policies import FULL, NAIVE
from relaylite.reuse.profile import default_profile
from relaylite.store.codec import CODECS

N_LAYER = 12


def plan_with_spans() -> Plan:
    """New [0, 4), spans [4, 14) and [14, 17), new [17, 19)."""
    rows = rows_of(range(13))
    spans = [Segment(4, 14, Kind.SPAN, rows), Segment(14, 17, Kind.SPAN, rows, 10)]
    return Plan(np.arange(19, dtype=np.int32), (Segment(0, 4, Kind.NEW), *spans, Segment(17, 19, Kind.NEW)), NAIVE)


def test_full_and_naive_come_first_and_each_once() -> None:
    labels = [method.label for method in parse_methods("relay,prefix, naive,relay:careful,relay", N_LAYER)]
    assert labels == ["full", "naive", "relay", "prefix", "relay:careful", "full again"]


def test_cacheblend_detects_at_layer_1_and_recomputes_all_layers() -> None:
    method = parse_method("cacheblend:0.15", N_LAYER)
    p = method.parameters
    assert p is not None and (p.l_start, p.l_det, p.l_end, p.detector, p.max_share) == (0, 1, N_LAYER, "value", 0.15)
    measured = default_profile("x", N_LAYER)
    assert method.profile(measured).parameters(method.policy) == p
    assert parse_method("relay", N_LAYER).profile(measured) is measured


def test_epic_takes_the_first_tokens_of_each_span() -> None:
    assert first_tokens(plan_with_spans(), 4).tolist() == [4, 5, 6, 7, 14, 15, 16]
    forced = parse_method("epic:2", N_LAYER).forced
    assert forced is not None and forced(plan_with_spans()).tolist() == [4, 5, 14, 15]


def test_random_takes_a_share_of_span_tokens_the_same_each_time() -> None:
    chosen = random_tokens(plan_with_spans(), 0.4)
    assert len(chosen) == 5 and set(chosen) < set(range(4, 17)) and (np.diff(chosen) > 0).all()
    assert chosen.tolist() == random_tokens(plan_with_spans(), 0.4).tolist()


def test_everything_takes_every_span_token() -> None:
    forced = parse_method("everything", N_LAYER).forced
    assert forced is not None and forced(plan_with_spans()).tolist() == list(range(4, 17))


def test_exact_policies_read_no_smaller_form() -> None:
    assert parse_method("prefix@plain", N_LAYER).codec is CODECS["plain"]
    with pytest.raises(UsageError, match="prefix takes over exact rows and no others, so none of q8"):
        parse_method("prefix@q8", N_LAYER)


def test_batches_take_nothing_over() -> None:
    method = parse_method("batches:64", N_LAYER)
    assert method.policy == FULL and method.n_batch == 64 and method.forced is None


@pytest.mark.parametrize("name", ["relay", "relay:careful", "naive", "epic:4"])
def test_any_method_can_read_files_of_any_form(name: str) -> None:
    method = parse_method(f"{name}@q6-q4", N_LAYER)
    assert method.label == f"{name}@q6-q4" and method.codec is CODECS["q6-q4"]
    assert method.policy == parse_method(name, N_LAYER).policy and parse_method(name, N_LAYER).codec is None
    with pytest.raises(UsageError, match="unknown codec of stored rows in 'relay@zip'; known: plain, q8"):
        parse_method("relay@zip", N_LAYER)


def test_parameters_of_the_profile_can_be_changed() -> None:
    measured = default_profile("x", N_LAYER)
    method = parse_method("relay:careful+lead=0+max_share=0.5+l_start=3+l_det=3@q8", N_LAYER)
    assert method.label == "relay:careful+lead=0+max_share=0.5+l_start=3+l_det=3@q8" and method.codec is CODECS["q8"]
    changed = method.profile(measured).parameters(method.policy)
    assert changed == replace(measured.fidelities["careful"], lead=0, max_share=0.5, l_start=3, l_det=3)
    assert captures_of([method], measured) == {"l_in-3": "l_out-2", "attn-3": "kqv_out-3"}


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
        parse_method(name, N_LAYER)
    assert "\n" not in str(caught.value)


def test_rows_carry_the_states_of_every_method() -> None:
    measured = default_profile("x", N_LAYER)
    methods = parse_methods("relay,cacheblend:0.2", N_LAYER)
    assert captures_of(methods, measured) == measured.captures
    assert captures_of([parse_method("cacheblend:0.2", N_LAYER)], measured) == {}


@pytest.mark.parametrize("name", ["nothing", "epic", "epic:0", "epic:x", "batches:0", "random:2", "cacheblend:-1", "relay:epic"])
def test_unknown_ones_are_named_with_what_is_known(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_methods(f"relay,{name}", N_LAYER)
    assert name in str(caught.value) and "\n" not in str(caught.value)
