"""What a prompt token costs here: one odd prefill decides nothing, and a new process knows it before it has computed anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.fakes import FakeEngine

from relaylite import Agent, Relay
from relaylite.store.folder import RowFolder
from relaylite.store.prefill_speed import LEAST_TOKENS, N_SAMPLES, PrefillSpeed

PLAN = Agent("plan", "Make a plan for what is asked of you, and say it in a few clear sentences.")
CODE = Agent("code", "Write the code.")


def speed_of(*samples: tuple[int, float], remembered: tuple[tuple[int, float], ...] = ()) -> float:
    speed = PrefillSpeed(remembered)
    for n_tokens, ms in samples:
        speed.learn(n_tokens, ms)
    return speed.ms_per_token


def test_nothing_is_known_at_first() -> None:
    assert speed_of() == 0


def test_the_only_prefill_is_believed() -> None:
    assert speed_of((100, 200)) == 2


def test_a_cold_first_prefill_is_outvoted_by_the_next() -> None:
    assert speed_of((400, 4000), (100, 100)) == 1


def test_short_prefills_are_outvoted_by_a_long_one() -> None:
    assert speed_of((100, 100), (20, 200), (30, 200), (20, 210), (500, 550)) == pytest.approx(1.1)


def test_a_few_tokens_say_nothing() -> None:
    assert speed_of((LEAST_TOKENS - 1, 500)) == 0


def test_what_earlier_processes_measured_holds_until_this_one_has_measured_enough() -> None:
    remembered = ((500, 1000.0), (400, 840.0))
    assert speed_of(remembered=remembered) == pytest.approx(2, rel=0.06)
    assert speed_of((300, 3000), (30, 30), remembered=remembered) == pytest.approx(2, rel=0.06)
    assert speed_of((300, 3000), (300, 1200), remembered=remembered) == 4


def test_the_first_prefill_is_no_news_for_later_processes_and_old_samples_go() -> None:
    speed = PrefillSpeed([(100, 100.0)] * N_SAMPLES)
    speed.learn(100, 9999)
    assert speed.samples == ((100, 100.0),) * N_SAMPLES
    speed.learn(200, 400)
    assert speed.samples == (*((100, 100.0),) * (N_SAMPLES - 1), (200, 400))


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
