"""A cancel from any thread ends what runs, wherever it is, and the engine is as good as new afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.live_engine import LiveEngine, Taken, changed, opened, plan_of

from relaylite.errors import Cancelled, EngineClosed
from relaylite.events import PhaseName
from relaylite.reuse.plan import Kind, Plan
from relaylite.reuse.policies import FULL, NAIVE, PREFIX, RELAY
from relaylite.sampling import Sampling

OnPhase = Callable[[PhaseName], None]


def full(live: LiveEngine) -> Plan:
    return plan_of(FULL, live.tokens(700))


def prefix(live: LiveEngine) -> Plan:
    return plan_of(PREFIX, Taken(live.full_rows(live.tokens(50)), kind=Kind.PREFIX), live.tokens(700, 1))


def naive(live: LiveEngine) -> Plan:
    return plan_of(NAIVE, live.tokens(30, 1), Taken(live.written(), 24), live.tokens(7, 2))


def relay(live: LiveEngine) -> Plan:
    live.relay_by(changed({"l_start": 1, "l_det": 1, "l_end": live.n_layer}))
    return plan_of(RELAY, live.tokens(30, 1), Taken(live.written(), 24), live.tokens(7, 2))


def cancelled_by(live: LiveEngine, plan: Plan, act: OnPhase) -> None:
    with pytest.raises(Cancelled):
        live.engine.prefill(plan, act)


def is_as_new(live: LiveEngine) -> bool:
    """The sequence is empty, and the next turn is what it is on an engine that was never cancelled."""
    return len(live.engine.harvest("")) == 0 and goes_on_as_new(live)


def goes_on_as_new(live: LiveEngine) -> bool:
    tokens = live.tokens(40, 5)
    logits = live.full(tokens)
    with opened(Path(live.engine.info.path), kv_type="f32") as fresh:
        return np.array_equal(fresh.full(tokens), logits)


CASES = [(full, "place"), (full, "suffix"), (prefix, "place"), (prefix, "suffix"), (naive, "place"), (naive, "repair"), (naive, "suffix")]
CASES += [(relay, "place"), (relay, "repair"), (relay, "suffix")]


@pytest.mark.parametrize(("make", "phase"), CASES, ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_a_cancel_in_any_phase_ends_the_prefill(make: Callable[[LiveEngine], Plan], phase: PhaseName, tiny: LiveEngine) -> None:
    plan = make(tiny)
    cancelled_by(tiny, plan, lambda now: tiny.engine.cancel() if now == phase else None)
    kept = tiny.engine.harvest("").tokens
    assert len(kept) == (plan.count(Kind.PREFIX) if phase in ("place", "suffix") and not plan.count(Kind.SPAN) else 0)
    assert np.array_equal(kept, plan.tokens[: len(kept)])
    assert goes_on_as_new(tiny)


def test_llama_itself_is_stopped_between_two_nodes(tiny: LiveEngine) -> None:
    """Not only between batches: of a batch that is cancelled before it begins, not even the first layer is computed."""
    tiny.relay_by(changed({"l_start": 1, "l_det": 1, "l_end": tiny.n_layer}))
    plan = plan_of(FULL, tiny.tokens(100))
    cancelled_by(tiny, plan, lambda now: tiny.engine.cancel() if now == "suffix" else None)
    assert np.isnan(tiny.engine._sequence._capture.read("l_out-0", 0, 100)).all()
    tiny.prefill(plan)
    assert not np.isnan(tiny.engine._sequence._capture.read("l_out-0", 0, 100)).any()


def test_a_cancel_from_another_thread_ends_a_long_prefill(default: LiveEngine) -> None:
    is_inside = threading.Event()

    def cancel() -> None:
        is_inside.wait(30)
        threading.Event().wait(0.1)  # into the first of two batches, each some hundred milliseconds long
        default.engine.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    cancelled_by(default, plan_of(FULL, default.tokens(1000)), lambda now: is_inside.set() if now == "suffix" else None)
    thread.join()
    assert len(default.engine.harvest("")) == 0
    default.prefill(plan_of(FULL, default.tokens(5)))
    assert len(default.generate(2)) == 2


def test_a_cancel_between_prefill_and_answer_is_not_forgotten(tiny: LiveEngine) -> None:
    tiny.full(tiny.tokens(20))
    tiny.engine.cancel()
    writer = tiny.engine.generate(Sampling())
    with pytest.raises(Cancelled):
        next(writer)
    assert writer.finish_reason == "cancelled" and writer.tokens == ()


def test_a_cancel_while_nothing_runs_does_not_stop_the_next_turn(tiny: LiveEngine) -> None:
    tiny.engine.cancel()
    tiny.full(tiny.tokens(20))
    assert len(list(tiny.engine.generate(Sampling(max_tokens=1)))) == 1


def test_a_harvest_heeds_a_cancel_if_it_is_to(tiny: LiveEngine) -> None:
    rows = tiny.full_rows(tiny.tokens(60))
    tiny.engine.cancel()
    with pytest.raises(Cancelled):
        tiny.engine.harvest("", heeds_cancel=True)
    assert np.array_equal(tiny.engine.harvest("").data, rows.data)


def test_positions_go_on_after_a_cancelled_answer(tiny: LiveEngine) -> None:
    tokens = tiny.tokens(20)
    expected = tiny.full_rows(tokens)
    deltas = tiny.engine.generate(Sampling(temperature=1.0))
    next(deltas)
    tiny.engine.cancel()
    with pytest.raises(Cancelled):
        next(deltas)
    left = tiny.engine.harvest("")
    assert left.tokens.tolist()[:20] == tokens and np.array_equal(left.slice(0, 20).data, expected.data)
    more = tiny.rows(plan_of(PREFIX, Taken(left, 0, 19, Kind.PREFIX), tokens[19:], tiny.tokens(9, 1)))
    assert tiny.errors(more, tiny.full_rows([*tokens, *tiny.tokens(9, 1)])).max() < 2e-2


@pytest.mark.parametrize("phase", ["place", "repair", "suffix"])
def test_what_the_reader_of_phases_raises_passes_through(phase: PhaseName, tiny: LiveEngine) -> None:
    def fail(now: PhaseName) -> None:
        if now == phase:
            raise KeyError(phase)

    plan = naive(tiny)
    with pytest.raises(KeyError):
        tiny.engine.prefill(plan, fail)
    assert is_as_new(tiny)


def test_a_closed_engine_takes_a_cancel_and_nothing_else(tiny_path: Path) -> None:
    with opened(tiny_path) as live:
        live.full(live.tokens(9))
        plan = plan_of(FULL, live.tokens(9))
        tokenizer = live.engine.tokenizer
        deltas = live.engine.generate(Sampling())
        next(deltas)
        live.engine.close()
        live.engine.cancel()
        live.engine.close()
        calls: list[Callable[[], object]] = [
            lambda: live.prefill(plan), lambda: live.engine.harvest(""), lambda: live.engine.memory(), lambda: live.engine.force([30]),
            lambda: next(live.engine.generate(Sampling())), lambda: live.engine.configure(live.engine.profile),
            lambda: live.engine.logits(),
            lambda: tokenizer.tokenize("a b", parse_special=False), lambda: tokenizer.is_eog(2), lambda: tokenizer.piece(77),
            lambda: next(deltas),
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(EngineClosed, match="open it again"):
                call()
