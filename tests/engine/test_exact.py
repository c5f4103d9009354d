"""Exact policies are exact: `full` is llama.cpp's own greedy loop, `prefix` is `full` to rounding, and no row that rests on relayed ones
is ever taken for an exact one, neither from a store nor from the live sequence that is kept between turns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.live_engine import LiveEngine, Taken, changed, difference, opened, plan_of
from support.plain_llama import greedy, rows_in

from relaylite.engine.llama import Context
from relaylite.reuse.plan import Kind
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import FULL, NAIVE, PREFIX, RELAY, Policy
from relaylite.reuse.rows import Rows
from relaylite.store import Store

ROUNDING = 2e-2  # llama.cpp rounds otherwise where a batch has another size; anything wrong is off by 0.1 and more


def prefix(rows: Rows, n: int) -> Taken:
    return Taken(rows, 0, n, Kind.PREFIX)


@pytest.mark.parametrize("n_prompt", [1, 7, 512, 513, 1100])
def test_full_is_llamas_own_greedy_loop(n_prompt: int, tiny: LiveEngine, tiny_path: Path) -> None:
    prompt = tiny.tokens(n_prompt)
    written, state = greedy(tiny_path, prompt, 12, n_ctx=2048, kv_type="f32")
    tiny.prefill(plan_of(FULL, prompt))
    assert tiny.generate(12) == written
    rows = tiny.engine.harvest("")
    assert rows.tokens.tolist() == prompt + written[:-1]
    assert np.array_equal(rows.data, rows_in(state, rows.tokens.tolist(), rows.layout).data)


def test_full_is_llamas_own_greedy_loop_on_the_default_model(default: LiveEngine, default_model_path: Path) -> None:
    prompt = default.engine.tokenizer.tokenize(
        "<|im_start|>user\nName three fruits.<|im_end|>\n<|im_start|>assistant\n", parse_special=True
    )
    written, state = greedy(default_model_path, prompt, 8, n_ctx=1024)
    default.prefill(plan_of(FULL, prompt))
    assert default.generate(8) == written
    rows = default.engine.harvest("")
    assert np.array_equal(rows.data, rows_in(state, rows.tokens.tolist(), rows.layout).data)


@pytest.mark.parametrize("n_prefix", [1, 30, 59])
def test_prefix_gives_the_logits_of_full(n_prefix: int, tiny: LiveEngine) -> None:
    tokens = tiny.tokens(60)
    rows = tiny.full_rows(tokens[:n_prefix])
    tiny.full(tiny.tokens(5, seed=1))
    logits = tiny.logits_of(plan_of(PREFIX, prefix(rows, n_prefix), tokens[n_prefix:]))
    assert tiny.engine.harvest("").n_exact == 60
    assert difference(logits, tiny.full(tokens)) < ROUNDING


def test_the_same_prompt_twice_is_computed_by_its_last_token_and_not_stale(tiny: LiveEngine) -> None:
    tokens = tiny.tokens(40)
    rows = tiny.full_rows(tokens)
    expected = tiny.engine.logits()
    tiny.generate(5)
    for _ in range(2):
        again = tiny.logits_of(plan_of(PREFIX, prefix(rows, 39), tokens[39:]))
        assert difference(again, expected) < ROUNDING


def test_a_prompt_that_starts_the_last_one_has_logits_of_its_own(tiny: LiveEngine) -> None:
    tokens = tiny.tokens(40)
    rows = tiny.full_rows(tokens)
    shorter = tiny.logits_of(plan_of(PREFIX, prefix(rows, 19), tokens[19:20]))
    assert difference(shorter, tiny.full(tokens[:20])) < ROUNDING


def test_prefix_tokens_are_not_computed_again(tiny: LiveEngine) -> None:
    tokens = tiny.tokens(40)
    rows = tiny.full_rows(tokens)
    other = Rows(rows.tokens, 0, len(rows), np.roll(rows.data, 4), rows.layout)  # finite numbers in the wrong places
    tiny.full(tiny.tokens(3, seed=9))
    left = tiny.rows(plan_of(PREFIX, prefix(other, 30), tokens[30:]))
    assert np.array_equal(left.slice(0, 30).data, other.slice(0, 30).data)


# what counts as exact


def test_an_answer_behind_a_full_prefill_is_exact(tiny: LiveEngine) -> None:
    rows = tiny.written()
    assert rows.n_exact == len(rows)


@pytest.mark.parametrize("policy", [NAIVE, RELAY])
def test_rows_are_exact_up_to_the_first_span(policy: Policy, tiny: LiveEngine) -> None:
    upstream = tiny.written()
    tiny.prefill(plan_of(policy, tiny.tokens(30, 1), Taken(upstream, 24), tiny.tokens(7, 2)))
    tiny.engine.force(tiny.tokens(5, 3))
    rows = tiny.engine.harvest("")
    assert len(rows) == 30 + 40 + 7 + 5 and rows.n_exact == 30


def test_what_a_sweep_computes_before_the_first_span_is_as_exact_as_llama_itself(default: LiveEngine) -> None:
    """Its attention is written out for few tokens: llama.cpp's own rows differ as much when it computes in batches of other sizes."""
    tokens = default.tokens(100)
    expected = default.full_rows(tokens).slice(0, 50)
    default.prefill(plan_of(FULL, tokens[:32]))
    for start in (32, 64):
        default.engine.force(tokens[start : start + 32])
    in_batches = default.errors(default.engine.harvest("").slice(0, 50), expected).mean()
    swept = default.rows(plan_of(NAIVE, tokens[:50], Taken(default.written(), 24), default.tokens(7, 2)))
    assert swept.n_exact == 50
    assert 0 < default.errors(swept.slice(0, 50), expected).mean() < 1.5 * in_batches


def test_rows_of_a_span_at_the_very_start_are_not_exact(tiny: LiveEngine) -> None:
    upstream = tiny.written()
    half_exact = Rows(upstream.tokens, 0, 30, upstream.data, upstream.layout, upstream.states)
    rows = tiny.rows(plan_of(NAIVE, Taken(half_exact, 24), tiny.tokens(7, 2)))
    assert rows.n_exact == 0


def test_behind_a_prefix_that_is_half_exact_only_that_half_counts(tiny: LiveEngine) -> None:
    tokens = tiny.tokens(50)
    rows = tiny.full_rows(tokens)
    half_exact = Rows(rows.tokens, 0, 20, rows.data, rows.layout, rows.states)
    tiny.full(tiny.tokens(3, seed=9))
    assert tiny.rows(plan_of(NAIVE, prefix(half_exact, 40), tokens[40:])).n_exact == 20


def test_exact_rows_that_are_placed_behind_kept_ones_count(tiny: LiveEngine) -> None:
    tokens = tiny.tokens(50)
    rows = tiny.full_rows(tokens)
    exact_to_20, exact_to_30 = (Rows(rows.tokens, 0, n, rows.data, rows.layout, rows.states) for n in (20, 30))
    tiny.full(tiny.tokens(3, seed=9))
    assert tiny.rows(plan_of(NAIVE, prefix(exact_to_20, 40), tokens[40:])).n_exact == 20
    assert tiny.rows(plan_of(NAIVE, prefix(exact_to_30, 40), tokens[40:])).n_exact == 30


def test_exactness_survives_a_chain_of_relays(tiny: LiveEngine) -> None:
    first = tiny.written()
    second = tiny.rows(plan_of(RELAY, tiny.tokens(30, 1), Taken(first, 24), tiny.tokens(50, 2)))
    assert second.n_exact == 30
    third = tiny.rows(plan_of(RELAY, prefix(second, 20), tiny.tokens(9, 4), Taken(second, 70), tiny.tokens(3, 5)))
    assert third.n_exact == 29


def test_an_exact_turn_keeps_nothing_inexact_of_the_live_sequence(tiny: LiveEngine) -> None:
    """The same tokens stand in the live sequence, with relayed rows: an exact plan has to replace them."""
    upstream = tiny.written()
    relayed = plan_of(NAIVE, tiny.tokens(30, 1), Taken(upstream, 24), tiny.tokens(7, 2))
    exact = tiny.full_rows(relayed.tokens)
    tiny.prefill(relayed)
    n = len(relayed.tokens)
    left = tiny.rows(plan_of(PREFIX, prefix(exact, n - 1), relayed.tokens[n - 1 :]))
    assert left.n_exact == n
    assert tiny.errors(left, exact).max() < ROUNDING


def test_full_computes_what_stands_in_the_live_sequence_too(tiny: LiveEngine) -> None:
    upstream = tiny.written()
    relayed = plan_of(NAIVE, tiny.tokens(30, 1), Taken(upstream, 24), tiny.tokens(7, 2))
    expected = tiny.full(relayed.tokens)
    tiny.prefill(relayed)
    assert np.array_equal(tiny.full(relayed.tokens), expected)


TURNS = st.lists(
    st.tuples(
        st.sampled_from([FULL, PREFIX, NAIVE, RELAY]),
        st.lists(st.integers(0, 3), min_size=1, max_size=4),
        st.integers(0, 12),
    ),
    min_size=2,
    max_size=7,
)


@given(turns=TURNS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_came_before_exact_turns_are_exact(turns: list[tuple[Policy, list[int], int]], tiny: LiveEngine) -> None:
    """Prompts of the same four pieces in any order, answers of any length, policies mixed, one store: rows that are marked as exact are."""
    tiny.relay_by(changed({"l_start": 1, "l_det": 1, "l_end": tiny.n_layer, "max_share": 0.3}))
    pieces = [tiny.tokens(n, seed) for seed, n in enumerate((5, 36, 40, 70))]
    store = Store(tiny.engine.layout, 1 << 28)
    for policy, order, n_answer in turns:
        prompt = [token for i in order for token in pieces[i]]
        tiny.prefill(make_plan(prompt, store, policy))
        logits = tiny.engine.logits()
        for token in tiny.tokens(n_answer, seed=50):
            tiny.engine.force([token])
        rows = tiny.engine.harvest("")
        store.put(rows)
        assert rows.tokens.tolist() == prompt + tiny.tokens(n_answer, seed=50)
        if policy.is_exact:
            assert rows.n_exact == len(rows)
            assert difference(logits, tiny.full(prompt)) < ROUNDING
        expected = tiny.full_rows(rows.tokens)
        assert (tiny.errors(rows, expected)[: rows.n_exact] < ROUNDING).all()
        assert max(np.abs(tiny.k(rows, 0) - tiny.k(expected, 0)).max(), np.abs(tiny.v(rows, 0) - tiny.v(expected, 0)).max()) < 1e-3


def test_rows_behind_many_batches_are_those_of_small_ones(tiny_path: Path) -> None:
    with opened(tiny_path, n_ctx=2048, kv_type="f32") as live:
        tokens = live.tokens(1300)
        rows = live.full_rows(tokens)
        in_one = live.rows(plan_of(PREFIX, prefix(rows, 1250), tokens[1250:]))
        assert live.errors(in_one, rows).max() < ROUNDING


def test_batches_of_another_size_change_nothing_but_rounding(tiny: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt, sizes = tiny.tokens(100), []
    decode = Context.decode

    def noted(self: Context, tokens: list[int], position: int, *, all_logits: bool = False) -> int:
        sizes.append(len(tokens))
        return decode(self, tokens, position, all_logits=all_logits)

    monkeypatch.setattr(Context, "decode", noted)
    whole = tiny.full(prompt).copy()
    tiny.engine.configure(tiny.engine.profile, n_batch=40)
    assert difference(tiny.full(prompt), whole) < ROUNDING
    tiny.engine.configure(tiny.engine.profile, n_batch=1 << 20)
    tiny.full(tiny.tokens(600))
    tiny.engine.configure(tiny.engine.profile)
    assert sizes == [100, 40, 40, 20, 512, 88]
