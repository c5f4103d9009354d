"""Models whose rows cannot be placed go on from what they computed: the live sequence, or a kept state. Always exactly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.live_engine import F32, LiveEngine, difference, opened
from support.reach import EXPECTED, GOES_ON
from support.tiny_models import write_model

from relaylite import Agent, Relay
from relaylite.errors import Cancelled, NativeError
from relaylite.metrics import CellMap
from relaylite.reuse.plan import Kind, Plan
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import FULL, PREFIX
from relaylite.sampling import Sampling

CUTTABLE = [arch for arch, expected in EXPECTED.items() if expected.kept_states == "start"]
WHOLE = [
    arch for arch, expected in EXPECTED.items() if expected.kept_states == "whole"
]  # recurrent, or saved without rows outside a window
ROUNDING = 0.03  # other batches round otherwise: splitting a prompt makes up to half of it


@pytest.fixture(scope="module", params=[*CUTTABLE, *WHOLE])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, write_model(tmp_path_factory.mktemp("m") / "m.gguf", request.param, weights="F32")


@pytest.fixture
def live(model: tuple[str, Path]) -> Iterator[LiveEngine]:
    with opened(model[1], n_ctx=512, kv_type="f32") as live:
        yield live


def test_info_says_what_prompts_go_on_from(live: LiveEngine, model: tuple[str, Path]) -> None:
    assert live.engine.info.prefix_reuse == GOES_ON[EXPECTED[model[0]].kept_states]


def turn(live: LiveEngine, tokens: list[int], n_answer: int = 0) -> Plan:
    """As a chain does it: plan, prefill, answer, harvest."""
    plan = plan_for(live, tokens)
    live.prefill(plan)
    for token in live.tokens(n_answer, seed=77):
        live.engine.force([token])
    live.engine.harvest("")
    return plan


def test_another_profile_empties_the_live_sequence(live: LiveEngine) -> None:
    turn(live, live.tokens(40))
    live.engine.configure(live.engine.profile)
    assert len(live.engine._sequence) == 0 and live.engine._context.length() == 0


def plan_for(live: LiveEngine, tokens: list[int]) -> Plan:
    past = live.engine.kept_states
    assert past is not None
    return make_plan(tokens, past, PREFIX)


def decoded(live: LiveEngine, first: list[int], answer: list[int], more: list[int]) -> F32:
    """Logits behind all of it by llama.cpp alone: a prompt, an answer token by token, and a batch of new tokens."""
    live.full(first)
    for token in answer:
        live.engine.force([token])
    live.engine._sequence.decode(more)
    return live.engine._context.logits()


def answer(live: LiveEngine, n: int) -> list[int]:
    return live.tokens(n, seed=77)


def test_the_live_sequence_goes_on(live: LiveEngine) -> None:
    first = live.tokens(40)
    turn(live, first, 6)
    longer = first + answer(live, 6) + live.tokens(9, 1)
    plan = turn(live, longer)
    assert plan.count(Kind.PREFIX) == 46
    assert difference(live.engine.logits(), live.full(longer)) < ROUNDING


def test_going_on_is_bit_for_bit_what_decoding_in_the_same_batches_is(live: LiveEngine) -> None:
    first, more = live.tokens(40), live.tokens(9, 1)
    turn(live, first)
    gone_on = live.logits_of(plan_for(live, first + more))
    assert np.array_equal(gone_on, decoded(live, first, [], more))


def test_a_kept_state_is_taken_up_behind_other_prompts(live: LiveEngine) -> None:
    first = live.tokens(40)
    turn(live, first, 6)
    for seed in (5, 6):
        turn(live, live.tokens(30, seed), 4)
    longer = first + answer(live, 6) + live.tokens(9, 1)
    plan = plan_for(live, longer)
    prefill = live.prefill(plan)
    logits = live.engine.logits()
    assert plan.count(Kind.PREFIX) == 46 and (prefill.cells.cells[:, :46] == CellMap.PREFIX).all()
    assert np.array_equal(logits, decoded(live, first, answer(live, 6), live.tokens(9, 1)))


def test_a_prompt_that_begins_alike_takes_over_what_can_be_cut(live: LiveEngine, model: tuple[str, Path]) -> None:
    """Of a state that cannot be cut nothing is taken over the first time; the place where the prompts part is kept for the next."""
    shared = live.tokens(60)
    counts = []
    for seed in (1, 2, 3):
        prompt = shared + live.tokens(20, seed)
        counts.append(turn(live, prompt, 3).count(Kind.PREFIX))
        turn(live, live.tokens(30, 50 + seed))  # not from the live sequence
    assert counts == ([0, 60, 60] if model[0] in CUTTABLE else [0, 0, 60])
    logits = live.logits_of(plan_for(live, shared + live.tokens(20, 9)))
    assert difference(logits, live.full(shared + live.tokens(20, 9))) < ROUNDING


def test_the_same_prompt_again_still_computes_its_last_token(live: LiveEngine) -> None:
    tokens = live.tokens(50)
    expected = live.full(tokens)
    for _ in range(3):
        turn(live, tokens, 2)
        live.prefill(plan_for(live, tokens))
        assert difference(live.engine.logits(), expected) < ROUNDING


def test_full_takes_nothing_over(live: LiveEngine) -> None:
    tokens = live.tokens(50)
    expected = live.full(tokens)
    turn(live, tokens)
    past = live.engine.kept_states
    assert past is not None
    plan = make_plan([*tokens, 30], past, FULL)
    assert plan.count(Kind.PREFIX) == 0
    assert np.array_equal(live.full(tokens), expected)


def test_whatever_was_cut_off_is_not_gone_on_from(live: LiveEngine) -> None:
    """A stop string ends an answer before what was decoded of it."""
    tokens = live.tokens(40)
    turn(live, tokens, 6)
    live.engine._sequence.cut(43)
    live.engine.harvest("")
    prompt = tokens + answer(live, 3) + live.tokens(5, 1)
    logits = live.logits_of(plan_for(live, prompt))
    assert difference(logits, live.full(prompt)) < ROUNDING


@pytest.mark.parametrize("phase", ["place", "suffix"])
def test_a_stopped_prefill_leaves_what_was_kept(phase: str, live: LiveEngine) -> None:
    first = live.tokens(40)
    turn(live, first)
    plan = plan_for(live, first + live.tokens(9, 1))
    with pytest.raises(Cancelled):
        live.engine.prefill(plan, lambda now: live.engine.cancel() if now == phase else None)
    assert plan.count(Kind.PREFIX) == plan_for(live, plan.tokens.tolist()).count(Kind.PREFIX) == 40
    assert difference(live.logits_of(plan), live.full(plan.tokens)) < ROUNDING


def test_a_stopped_answer_is_not_gone_on_from_where_its_last_token_was_computed_in_part(live: LiveEngine) -> None:
    """Layers that ran before the stop have taken the token up in their state, the others have not."""
    tokens = live.tokens(40)
    live.prefill(plan_for(live, tokens))
    writer = live.engine.generate(Sampling(max_tokens=8))
    next(writer), next(writer)
    live.engine.cancel()
    with pytest.raises(Cancelled):
        next(writer)
    live.engine.harvest("")
    prompt = [*tokens, *writer.tokens, *live.tokens(9, 1)]
    logits = live.logits_of(plan_for(live, prompt))
    assert len(writer.tokens) == 2
    assert difference(logits, live.full(prompt)) < ROUNDING


def test_a_state_that_llama_refuses_is_tried_once(live: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    first = live.tokens(40)
    turn(live, first)
    turn(live, live.tokens(30, 5))
    plan = plan_for(live, first + live.tokens(9, 1))
    with monkeypatch.context() as patch:
        patch.setattr(live.engine._context, "write_state", lambda state: False)
        with pytest.raises(NativeError):
            live.prefill(plan)
    assert plan_for(live, plan.tokens.tolist()).count(Kind.PREFIX) == 0
    assert np.array_equal(live.logits_of(plan), live.full(plan.tokens))


def test_a_state_that_llama_could_not_write_is_not_kept(live: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    past = live.engine.kept_states
    assert past is not None
    monkeypatch.setattr(live.engine._context, "read_state", lambda: np.empty(0, np.uint8))
    turn(live, live.tokens(40))
    assert past.n_bytes == 0
    turn(live, live.tokens(30, 5))
    assert plan_for(live, live.tokens(49)).count(Kind.PREFIX) == 0


@pytest.mark.parametrize("budget", [0, 400_000])
def test_states_stay_within_their_budget(budget: int, tmp_path: Path) -> None:
    with opened(write_model(tmp_path / "m.gguf", "jamba"), n_ctx=512, kept_state_bytes=budget) as live:
        past = live.engine.kept_states
        assert past is not None
        for seed in range(12):
            turn(live, live.tokens(60, seed))
            assert past.n_bytes <= budget and live.engine.memory().store_bytes == past.n_bytes
        assert (past.n_bytes > 0) == (budget > 0)
        live.engine._sequence.forget()
        found = [plan_for(live, [*live.tokens(60, seed), 30]).count(Kind.PREFIX) for seed in range(12)]
        assert found == sorted(found) and (60 in found) == (budget > 0) and found[0] == 0


def test_the_state_used_last_is_kept_longest(tmp_path: Path) -> None:
    with opened(write_model(tmp_path / "m.gguf", "mamba"), n_ctx=512) as live:
        turn(live, live.tokens(30, 0))
        past = live.engine.kept_states
        assert past is not None
        past._budget = 2 * past.n_bytes + 200
        turn(live, live.tokens(30, 1))
        live.prefill(plan_for(live, [*live.tokens(30, 0), 40]))
        turn(live, live.tokens(30, 2))
        live.engine._sequence.forget()
        assert [plan_for(live, [*live.tokens(30, seed), 40]).count(Kind.PREFIX) for seed in range(3)] == [30, 0, 30]


@pytest.mark.parametrize("arch", ["deepseek2", "mamba", "jamba"])
def test_an_agents_second_round_computes_only_what_is_new(arch: str, tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", arch)
    with Relay(path, policy="prefix", n_ctx=1024, n_threads=1, sampling={"max_tokens": 5, "temperature": 0}, store_bytes=10**8) as relay:
        chain = relay.chain([Agent("plan", "Plan."), Agent("code", "Write code.")])
        firsts = chain.run("Sort a list.").turns
        seconds = chain.run("And now another.").turns
        for first, second in zip(firsts, seconds, strict=True):
            metrics = second.metrics
            assert metrics.prefix_tokens >= first.metrics.prompt_tokens
            assert metrics.prefix_tokens + metrics.computed_tokens == metrics.prompt_tokens
            assert second.cells is not None
            assert (second.cells.cells == CellMap.PREFIX).sum(axis=1).tolist() == [metrics.prefix_tokens] * relay.info.n_layer
        assert chain.settle() > 0  # what the template puts between answer and next message
        assert chain.settle() == 0
