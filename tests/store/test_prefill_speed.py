"""What a prompt token costs here: one odd prefill decides nothing, and a new process knows it before it has computed anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.fakes import FakeEngine

from relaylite import Agent, Relay
from relaylite.store.folder import RowFolder
from relaylite.store.prefill_speed import LEAST_TOKENS, N_SAMPLES, Estimate, PrefillSpeed

PLAN = Agent("plan", "Make a plan for what is asked of you, and say it in a few clear sentences.")
CODE = Agent("code", "Write the code.")


def speed_of(*samples: tuple[int, float], remembered: tuple[tuple[int, float], ...] = ()) -> float:
    """Milliseconds of one of 100 tokens after prefills of (tokens, milliseconds) from the first token on."""
    speed = PrefillSpeed([(0, n, ms) for n, ms in remembered])
    for n_tokens, ms in samples:
        speed.learn(0, n_tokens, ms)
    return speed.estimate(0, 100).ms / 100


def test_nothing_is_known_at_first() -> None:
    assert speed_of() == 0
    assert PrefillSpeed().estimate(0, 1000) == Estimate()


def test_the_only_prefill_is_believed() -> None:
    assert speed_of((100, 200)) == pytest.approx(2)


def test_a_cold_first_prefill_is_outvoted_by_the_next() -> None:
    assert speed_of((100, 1000), (100, 100)) == pytest.approx(1, rel=0.01)


def test_short_prefills_are_outvoted_by_a_long_one() -> None:
    assert speed_of((100, 100), (20, 200), (30, 200), (20, 210), (500, 550)) == pytest.approx(1.1, rel=0.1)


def test_a_few_tokens_say_nothing() -> None:
    assert speed_of((LEAST_TOKENS - 1, 500)) == 0


def test_what_earlier_processes_measured_holds_until_this_one_has_measured_enough() -> None:
    remembered = ((500, 1000.0), (400, 800.0))
    assert speed_of(remembered=remembered) == pytest.approx(2, rel=0.1)
    assert speed_of((300, 3000), (30, 30), remembered=remembered) == pytest.approx(2, rel=0.1)
    assert speed_of((300, 3000), (300, 1200), remembered=remembered) == pytest.approx(4, rel=0.1)


def took(start: int, end: int, growth: float, rate: float = 1.0) -> float:
    return rate * sum(1 + growth * place for place in range(start, end))


@pytest.mark.parametrize("growth", [0.0, 1e-4, 5e-4, 2e-3])
def test_longer_prompts_cost_more_for_each_token(growth: float) -> None:
    speed = PrefillSpeed()
    for start, end in ((0, 100), (0, 700), (700, 1500), (0, 300), (1500, 1700)):
        speed.learn(start, end - start, took(start, end, growth))
    for start, end in ((0, 200), (0, 1700), (0, 4000), (3000, 4000)):
        assert speed.estimate(start, end).ms == pytest.approx(took(start, end, growth), rel=0.2), (start, end)


def test_a_machine_that_became_slow_is_believed() -> None:
    speed = PrefillSpeed()
    for rate in (1, 1, 1, 1, 1, 3, 3, 3, 3):
        speed.learn(0, 500, took(0, 500, 2e-4, rate))
    assert speed.estimate(0, 500).ms == pytest.approx(took(0, 500, 2e-4, 3), rel=0.1)


def error_of(estimate: Estimate) -> float:
    return estimate.high_ms / estimate.low_ms


def test_the_error_says_how_little_is_known() -> None:
    one, steady, restless = PrefillSpeed(), PrefillSpeed(), PrefillSpeed()
    one.learn(0, 200, 200)
    for number in range(20):
        steady.learn(0, 200 + 100 * (number % 10), took(0, 200 + 100 * (number % 10), 2e-4))
        restless.learn(0, 200 + 100 * (number % 10), took(0, 200 + 100 * (number % 10), 2e-4, 1 + number % 3))
    for speed in (one, steady, restless):
        for end in (200, 4000):
            estimate = speed.estimate(0, end)
            assert 0 < estimate.low_ms < estimate.ms < estimate.high_ms
    assert error_of(one.estimate(0, 4000)) > error_of(one.estimate(0, 200)) > error_of(steady.estimate(0, 200))
    assert error_of(restless.estimate(0, 200)) > 1.5 * error_of(steady.estimate(0, 200))
    assert error_of(steady.estimate(0, 1000)) < 1.5


def test_the_first_prefill_is_no_news_for_later_processes_and_old_samples_go() -> None:
    speed = PrefillSpeed([(0, 100, 100.0)] * N_SAMPLES)
    speed.learn(0, 100, 9999)
    assert speed.samples == ((0, 100, 100.0),) * N_SAMPLES
    speed.learn(50, 200, 400)
    assert speed.samples == (*((0, 100, 100.0),) * (N_SAMPLES - 1), (50, 200, 400))


def relay_on(engine: FakeEngine, folder: Path) -> Relay:
    return Relay(engine=engine, policy="naive", store_bytes=10**8, store_folder=folder)


def test_a_warm_start_that_computes_next_to_nothing_still_knows_what_it_saves(tmp_path: Path) -> None:
    first = FakeEngine()
    first.prefill_delay = 0.02
    with relay_on(first, tmp_path) as relay:
        for _ in range(2):
            relay.chain([PLAN], policy="full").run("Sort the lists that I gave you yesterday.")
    again = FakeEngine()
    with relay_on(again, tmp_path) as relay:
        [turn] = relay.chain([PLAN], policy="prefix").run("Sort the lists that I gave you yesterday.").turns
        assert turn.metrics.computed_tokens == 1
        assert turn.metrics.full_ttft_estimate_ms >= 20
    assert RowFolder(tmp_path, 1 << 30).stats().seconds_saved > 0.01


def test_relaying_and_placing_say_nothing_about_the_speed_of_computing() -> None:
    engine = FakeEngine()
    engine.enqueue("First look at both lists, then take the smaller head each time.")
    relay = Relay(engine=engine, policy="naive", store_bytes=10**8)
    chain = relay.chain([PLAN, CODE])
    speed = relay._store.speed
    events = chain.stream("Sort.")
    for event in events:
        if type(event).__name__ == "TurnFinished":
            break
    before = speed.ms_per_token
    engine.prefill_delay = 0.2
    for _ in events:
        pass
    assert engine.plans[-1].segments[0].kind.value != "span" and any(s.kind.value == "span" for s in engine.plans[-1].segments)
    assert speed.ms_per_token == before > 0


def test_what_the_prefix_alone_would_have_taken_is_said_beside_the_whole() -> None:
    engine = FakeEngine()
    engine.prefill_delay = 0.05
    engine.enqueue("First look at both lists, then take the smaller head each time.")
    relay = Relay(engine=engine, policy="naive", store_bytes=10**8)
    first, second = (turn.metrics for turn in relay.chain([PLAN, CODE]).run("Sort.").turns)
    assert second.span_tokens and not first.span_tokens
    assert second.full_ttft_low_ms < second.full_ttft_estimate_ms < second.full_ttft_high_ms
    assert 0 < second.prefix_ttft_estimate_ms < second.full_ttft_estimate_ms
    assert second.saved_ms == second.prefix_ttft_estimate_ms - second.ttft_ms and first.saved_ms == 0
    assert 0.1 < second.full_error < 1
