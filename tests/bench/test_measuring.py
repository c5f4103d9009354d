"""The benchmark on a real, tiny model: what it measures is what the engine does, on prompts that are the same for all."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relaylite.bench import sample as samples_module
from relaylite.bench.bench import Bench
from relaylite.bench.chains import LEAST_JOINED, LEAST_PIECE, ChainOptions, Reading, Upstream, pieces
from relaylite.bench.measuring import Meter
from relaylite.bench.methods import parse_methods
from relaylite.bench.options import BenchOptions
from relaylite.bench.readings import built_in
from relaylite.bench.sample import Sample
from relaylite.bench.statistics import Values
from relaylite.bench.tasks import Task
from relaylite.chain.agents import Agent
from relaylite.engine.engine import Engine
from relaylite.engine.native import F32
from relaylite.errors import Cancelled, UsageError
from relaylite.reuse.plan import Kind
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import NAIVE

TASKS = [Task("gsm8k", f"What is {n} times {n + 1}, and why is it more than {n}?", "123456789") for n in range(3, 9)]
CHAIN = [Agent("first", "Write on."), Agent("second", "Read it."), Agent("third", "Say more of it.")]


def samples_of(engine: Engine, policies: str, n: int = 1, *, relayed: tuple[int, ...] = (), judges: bool = False) -> list[list[Sample]]:
    options = BenchOptions(ChainOptions(max_tokens=96 if relayed else 48), relayed=relayed, n_follow=8, judges=judges)
    return list(Bench(engine, parse_methods(policies), CHAIN, options).run(TASKS, n))


def by_label(samples: list[Sample]) -> dict[str, Sample]:
    return {sample.method: sample for sample in samples}


def test_every_method_meets_the_same_prompt(engine: Engine) -> None:
    for samples in samples_of(engine, "full,prefix,naive,relay,epic:4,random:0.2,everything", n=2):
        own = by_label(samples)
        assert len({sample.prompt_tokens for sample in samples}) == 1 == len({sample.prompt for sample in samples})
        assert own["full"].prefix_tokens == 0 and own["full"].prompt_reuse == 0
        relaying = [own[name] for name in ("naive", "relay", "epic:4", "random:0.2", "everything")]
        assert len({(sample.prefix_tokens, sample.span_tokens) for sample in relaying}) == 1 and relaying[0].span_tokens > 32
        assert own["prefix"].prefix_tokens == own["naive"].prefix_tokens > 0 and own["prefix"].span_tokens == 0


def test_losses_lie_between_those_of_nothing_and_of_everything(engine: Engine) -> None:
    [own, *_] = [by_label(samples) for samples in samples_of(engine, "naive,epic:16,everything")]
    assert own["full"].kl_mean == own["full again"].kl_mean == 0 and own["full"].top1 == 1
    assert own["naive"].kl_mean > 0.01 and own["everything"].kl_mean < own["naive"].kl_mean / 100
    assert 0 < own["epic:16"].selected_tokens < own["everything"].selected_tokens == own["naive"].span_tokens
    assert own["naive"].selected_tokens == 0 and own["naive"].reuse_ratio == 1 and own["everything"].reuse_ratio == 0


def test_rows_from_files_are_those_of_memory_but_for_what_their_form_loses(engine: Engine) -> None:
    [own, *_] = [by_label(samples) for samples in samples_of(engine, "naive,naive@plain,naive@q8,naive@q4,prefix@plain")]
    of_memory, plain, q8, q4 = (own[name] for name in ("naive", "naive@plain", "naive@q8", "naive@q4"))
    assert (plain.kl_first, plain.kl_mean) == (of_memory.kl_first, of_memory.kl_mean)
    assert {sample.span_tokens for sample in (plain, q8, q4)} == {of_memory.span_tokens}
    assert 0 < abs(q8.kl_mean - of_memory.kl_mean) < abs(q4.kl_mean - of_memory.kl_mean)
    assert own["prefix@plain"].prefix_tokens == own["naive"].prefix_tokens


def test_each_answer_is_one_span_and_the_last_token_of_it_is_computed(engine: Engine) -> None:
    for samples, n_answers in zip(samples_of(engine, "naive"), (1, 2), strict=True):
        naive = by_label(samples)["naive"]
        assert samples[0].group == f"{n_answers + 1} {CHAIN[n_answers].name}"
        assert naive.span_tokens == n_answers * 47


def test_relayed_lengths_are_what_was_asked_for(engine: Engine) -> None:
    found = [by_label(samples)["naive"] for samples in samples_of(engine, "relay", relayed=(40, 100))]
    assert [sample.group for sample in found] == ["40", "100"]
    assert [sample.span_tokens for sample in found] == [40, 100]


def test_a_length_is_measured_before_the_text_for_the_next_one_is_written(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark that is stopped early has figures then; and no text is written twice."""
    written = []
    write = Upstream.write

    def counted(upstream: Upstream, *args: Any) -> Any:
        written.append(1)
        return write(upstream, *args)

    monkeypatch.setattr(Upstream, "write", counted)
    options = BenchOptions(ChainOptions(max_tokens=96), relayed=(40, 180), n_follow=8, judges=False)
    measured = Bench(engine, parse_methods("naive"), CHAIN, options).run(TASKS, 2)
    assert [(samples[0].group, len(written)) for samples in measured] == [("40", 1), ("180", 2), ("40", 2), ("180", 3)]


@given(st.lists(st.integers(LEAST_JOINED, 300), min_size=1, max_size=20), st.integers(LEAST_PIECE, 2000))
def test_pieces_are_long_enough_to_be_spans(lengths: list[int], n: int) -> None:
    taken = pieces(lengths, n)
    assert sum(taken) == min(n, sum(lengths))
    assert all(LEAST_PIECE <= piece <= length for piece, length in zip(taken, lengths, strict=False))


def test_answers_too_short_to_be_joined_are_said(engine: Engine) -> None:
    with pytest.raises(UsageError, match="raise --max-tokens"):
        options = BenchOptions(ChainOptions(max_tokens=48), relayed=(100,), judges=False)
        list(Bench(engine, parse_methods("naive"), CHAIN, options).run(TASKS[:2], 1))


def test_times_are_of_this_run_and_add_up(engine: Engine) -> None:
    for samples in samples_of(engine, "naive"):
        for sample in samples:
            parts = sample.ttft
            assert min(parts.render, parts.place, parts.suffix, parts.sample) > 0 and parts.rectify >= 0
            assert parts.total == pytest.approx(parts.render + parts.place + parts.rectify + parts.suffix + parts.sample)


def test_the_same_benchmark_gives_the_same_figures(engine: Engine) -> None:
    first, second = (samples_of(engine, "relay,random:0.3") for _ in range(2))
    assert [[(s.method, s.kl_mean, s.top1) for s in each] for each in first] == [
        [(s.method, s.kl_mean, s.top1) for s in each] for each in second
    ]


def test_answers_are_judged_for_the_last_agent_only(engine: Engine) -> None:
    before_last, last = samples_of(engine, "naive", judges=True)
    assert all(sample.is_right is None for sample in before_last)
    assert [sample.is_right for sample in last] == [False, False, None]  # a random model; `full again` writes nothing


def test_the_engine_is_as_before_afterwards(engine: Engine) -> None:
    profile = engine.profile
    assert len(samples_of(engine, "cacheblend:0.15", n=2)) == 4  # of four methods, cacheblend is last on the fourth prompt
    assert engine.profile is profile


def test_what_is_forced_is_the_greedy_continuation_of_the_full_prefill(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    likeliest: list[list[int]] = []
    continuations: list[list[int]] = []
    continuation, compare = Meter._continuation, samples_module.divergence

    def note_continuation(self: Meter, reading: Reading) -> list[int]:
        continuations.append(continuation(self, reading))
        return continuations[-1]

    def note_reference(reference: F32, seen: F32) -> Values:
        likeliest.append(reference.argmax(axis=1).tolist())
        return compare(reference, seen)

    monkeypatch.setattr(Meter, "_continuation", note_continuation)
    monkeypatch.setattr(samples_module, "divergence", note_reference)
    samples_of(engine, "naive")
    assert len(continuations[0]) == 8 and [likeliest[0], likeliest[-1]] == [continuations[0], continuations[-1]]


def test_cancelling_ends_it(engine: Engine) -> None:
    bench = Bench(engine, parse_methods("relay"), CHAIN, BenchOptions(ChainOptions(max_tokens=48), n_follow=8))
    running = bench.run(TASKS, 4)
    assert next(running)
    bench.cancel()
    with pytest.raises(Cancelled):
        list(running)


def test_chains_without_relayed_text_are_passed_over_and_said(engine: Engine) -> None:
    options = BenchOptions(ChainOptions(max_tokens=20), n_follow=4, judges=False)
    bench = Bench(engine, parse_methods("naive"), CHAIN[:2], options)
    assert list(bench.run(TASKS, 1)) == [] and bench.n_skipped == len(TASKS) and bench.n_chains == 0


def test_a_chain_of_one_is_refused(engine: Engine) -> None:
    with pytest.raises(UsageError, match="two agents"):
        Bench(engine, parse_methods("naive"), CHAIN[:1])


def readings_of(engine: Engine, *, is_warm: bool) -> list[Reading]:
    upstream = Upstream(engine, engine.profile, ChainOptions(max_tokens=48, is_warm=is_warm))
    return list(upstream.chain(TASKS[0], CHAIN))


def test_a_warm_prompt_was_seen_up_to_its_first_answer(engine: Engine) -> None:
    prompts = Upstream(engine, engine.profile, ChainOptions()).prompts
    for reading in readings_of(engine, is_warm=True):
        prompt = prompts.build(reading.messages)
        plan = make_plan(prompt.tokens, reading.store, NAIVE)
        before = next(i for i, part in enumerate(prompt.parts) if part.kind == "answer")
        n_before = sum(len(part.tokens) for part in prompt.parts[:before])
        assert plan.segments[0].kind is Kind.PREFIX and len(plan.segments[0]) == n_before
        answer = prompt.parts[before].tokens
        assert plan.segments[1].kind is Kind.SPAN and plan.tokens[n_before : plan.segments[1].end].tolist() == list(answer[:-1])


def test_a_cold_prompt_has_new_instructions(engine: Engine) -> None:
    prompts = Upstream(engine, engine.profile, ChainOptions()).prompts
    for reading in readings_of(engine, is_warm=False):
        prompt = prompts.build(reading.messages)
        plan = make_plan(prompt.tokens, reading.store, NAIVE)
        system = [i for i, part in enumerate(prompt.parts) if part.kind == "system"]
        start, end = (sum(len(part.tokens) for part in prompt.parts[: system[0] + i]) for i in (0, 1))
        new = set(plan.positions(Kind.NEW).tolist())
        assert len(new & set(range(start, end))) > (end - start) // 2
        assert plan.count(Kind.SPAN) >= 47


def test_relayed_rows_are_those_from_writing(engine: Engine) -> None:
    """Not rows that a prefill of the same text would give: the same tokens stand behind the writer's prompt."""
    upstream = Upstream(engine, engine.profile, ChainOptions(max_tokens=48))
    written = upstream.write(CHAIN[0], upstream.first_messages(TASKS[0], CHAIN[0]))
    rows = written.answer_rows()
    assert rows.tokens.tolist() == list(written.tokens[:-1]) and rows.position == written.n_prompt
    assert set(rows.states) == set(engine.profile.captures) and not any(np.isnan(state).any() for state in rows.states.values())
    assert written.cut(10).answer_rows().tokens.tolist() == list(written.tokens[:10])


def test_built_in_agents_follow_the_kind_of_task() -> None:
    for kind, names in (("gsm8k", ["plan", "solve", "check"]), ("humaneval", ["plan", "code", "review"])):
        assert [agent.name for agent in built_in(Task(kind, "x"))] == names  # type: ignore[arg-type]


def test_methods_rotate_so_that_none_is_always_first(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    timed = Meter._timed

    def note(self: Meter, method, reading, number, group):  # type: ignore[no-untyped-def]
        order.append(method.label)
        return timed(self, method, reading, number, group)

    monkeypatch.setattr(Meter, "_timed", note)
    samples_of(engine, "prefix", n=2)
    firsts = order[:: len(set(order))]
    assert all(a != b for a, b in pairwise(firsts)) and len(set(firsts)) == len(firsts) == 4
