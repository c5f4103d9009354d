"""One engine, used by one run at a time: cancelling and refusing, from this thread and others."""

from __future__ import annotations

import gc
import os
import signal
import threading

import pytest
from support.fakes import FakeEngine
from support.reader import SOON_S, Reader, until
from support.scripted_chain import CODE, PLAN

from relaylite.api import Relay
from relaylite.errors import Cancelled, EngineBusy
from relaylite.events import Event, Phase, PrefillDone, TextDelta, TurnFinished
from relaylite.reuse.plan import Kind

# cancelling


def test_cancelling_while_writing_keeps_the_partial_answer_and_its_rows(engine: FakeEngine, relay: Relay) -> None:
    engine.enqueue("a long answer", "the code")
    chain = relay.chain([PLAN, CODE])
    stream = chain.stream("Sort.")
    events = [next(event for event in stream if isinstance(event, TextDelta) and event.n_tokens == 6)]
    chain.cancel()
    with pytest.raises(Cancelled, match="stopped"):
        events.extend(stream)
    assert isinstance(events[-1], TurnFinished)
    assert (events[-1].turn.text, events[-1].turn.finish_reason) == ("a long", "cancelled")
    assert chain.rounds[0].turns == [events[-1].turn]
    assert bytes(events[-1].turn.tokens) == b"a long"
    chain.retry()
    chain.run("Sort.")
    assert engine.plans[-2].count(Kind.PREFIX) == len(engine.plans[0].tokens) - 1


def test_cancelling_before_the_first_token_leaves_no_answer(engine: FakeEngine, relay: Relay) -> None:
    engine.token_gate.clear()
    reader = Reader(relay.chain([PLAN]))
    assert engine.in_generate.wait(SOON_S)
    reader.chain.cancel()
    assert isinstance(reader.finish(), Cancelled)
    assert reader.chain.rounds[0].turns == []


@pytest.mark.parametrize("policy", ["full", "naive", "relay"])
def test_cancelling_from_another_thread_during_prefill_stops_it(engine: FakeEngine, relay: Relay, policy: str) -> None:
    engine.enqueue("x" * 50)
    chain = relay.chain([PLAN, CODE], policy=policy)
    list(chain.stream("Sort.", stop_after=0))
    engine.prefill_gate.clear()
    chain.agents = [PLAN, CODE]
    reader = Reader(chain, "Again.")
    assert engine.in_prefill.wait(SOON_S)
    chain.cancel()
    assert isinstance(reader.finish(), Cancelled)
    assert chain.rounds[1].turns == []
    engine.prefill_gate.set()
    assert len(chain.run("Once more.").turns) == 2


def test_phases_are_seen_while_they_last(engine: FakeEngine, relay: Relay) -> None:
    engine.prefill_gate.clear()
    reader = Reader(relay.chain([PLAN]))
    until(lambda: Phase("suffix") in reader.events)
    assert not [event for event in reader.events if isinstance(event, PrefillDone)]
    engine.prefill_gate.set()
    assert reader.finish() is None


def test_cancelling_a_stream_that_was_not_begun_stops_it_at_once(engine: FakeEngine, relay: Relay) -> None:
    chain = relay.chain([PLAN])
    stream = chain.stream("Sort.")
    chain.cancel()
    with pytest.raises(Cancelled):
        next(stream)
    assert not engine.plans and not chain.rounds
    assert chain.run("Sort.").text == "Understood."


def test_cancelling_just_before_prefill_is_not_lost(engine: FakeEngine, relay: Relay) -> None:
    """The engine forgets earlier cancels when a prefill begins; the run does not."""
    chain = relay.chain([PLAN])
    events: list[Event] = []
    with pytest.raises(Cancelled):
        for event in chain.stream("Sort."):
            events.append(event)
            if event == Phase("render"):
                chain.cancel()
    assert events[-1] == Phase("render") and not chain.rounds[0].turns


def test_cancelling_between_agents_stops_before_the_next_one(engine: FakeEngine, relay: Relay) -> None:
    chain = relay.chain([PLAN, CODE])
    events: list[Event] = []
    with pytest.raises(Cancelled):
        for event in chain.stream("Sort."):
            events.append(event)
            if isinstance(event, TurnFinished):
                chain.cancel()
    assert isinstance(events[-1], TurnFinished)
    assert [(turn.agent, turn.finish_reason) for turn in chain.rounds[0].turns] == [("plan", "stop")]
    assert [type(event).__name__ for event in chain.resume()][-1] == "ChainFinished"


def test_cancelling_without_a_run_does_nothing(relay: Relay) -> None:
    chain = relay.chain([PLAN])
    chain.cancel()
    assert chain.run("Sort.").text == "Understood."
    chain.cancel()
    assert chain.run("Sort.").text == "Understood."


def test_cancelling_one_chain_leaves_another_ones_run_alone(relay: Relay) -> None:
    first, second = relay.chain([PLAN]), relay.chain([CODE])
    first.run("Sort.")
    stream = second.stream("Sort.")
    next(event for event in stream if isinstance(event, TextDelta))
    first.cancel()
    assert [type(event).__name__ for event in stream][-1] == "ChainFinished"


def test_an_interrupt_keeps_the_partial_answer_and_frees_the_engine(engine: FakeEngine, relay: Relay) -> None:
    chain = relay.chain([PLAN])
    engine.fail("generate", KeyboardInterrupt(), after_tokens=5)
    with pytest.raises(KeyboardInterrupt):
        chain.run("Sort.")
    assert [(turn.text, turn.finish_reason) for turn in chain.rounds[0].turns] == [("Under", "cancelled")]
    assert chain.run("Again.").text == "Understood."


def test_ctrl_c_during_prefill_is_acted_on_at_once(engine: FakeEngine, relay: Relay) -> None:
    gc.collect()  # an interrupt that comes while what other tests left is collected would be lost
    engine.prefill_gate.clear()
    chain = relay.chain([PLAN])
    threading.Thread(target=lambda: (engine.in_prefill.wait(SOON_S), os.kill(os.getpid(), signal.SIGINT))).start()
    with pytest.raises(KeyboardInterrupt):
        chain.run("Sort.")
    assert not engine.in_prefill.is_set() and chain.rounds[0].turns == []
    engine.prefill_gate.set()
    assert [turn.text for turn in (list(chain.resume())[-1].turns)] == ["Understood."]


def test_a_full_prefill_that_is_measured_can_be_cancelled(engine: FakeEngine, relay: Relay) -> None:
    chain = relay.chain([PLAN])
    chain.run("Sort.")
    engine.prefill_gate.clear()
    threading.Thread(target=lambda: (engine.in_prefill.wait(SOON_S), chain.cancel())).start()
    with pytest.raises(Cancelled):
        chain.measure_full(0, 0)


# one run at a time


def test_a_second_call_while_a_stream_is_half_read_is_refused(engine: FakeEngine, relay: Relay) -> None:
    chain, other = relay.chain([PLAN]), relay.chain([CODE])
    stream = chain.stream("Sort.")
    next(stream)
    for call in (lambda: chain.stream("More."), lambda: chain.resume(), lambda: other.stream("More."), lambda: other.run("More.")):
        with pytest.raises(EngineBusy, match="read that run to its end, cancel it or close its stream first"):
            call()
    for change in (lambda: chain.retry(), lambda: chain.edit(0, 0, "x"), lambda: setattr(chain, "agents", ["plan"])):
        with pytest.raises(EngineBusy, match="the chain is writing"):
            change()
    list(stream)
    assert len(engine.plans) == 1
    assert other.run("More.").text == "Understood."


def test_a_second_thread_is_refused_and_texts_do_not_mix(engine: FakeEngine, relay: Relay) -> None:
    engine.enqueue("the first answer")
    engine.token_gate.clear()
    reader = Reader(relay.chain([PLAN]))
    assert engine.in_generate.wait(SOON_S)
    with pytest.raises(EngineBusy):
        relay.chain([CODE]).run("More.")
    engine.token_gate.set()
    assert reader.finish() is None
    assert reader.chain.rounds[0].turns[0].text == "the first answer"
    assert len(engine.plans) == 1


def test_many_threads_at_once_either_run_whole_or_are_refused(engine: FakeEngine, relay: Relay) -> None:
    engine.fallback = "one whole answer"
    readers = [Reader(relay.chain([PLAN]), f"Task {number}.") for number in range(8)]
    errors = [reader.finish() for reader in readers]
    assert all(error is None or isinstance(error, EngineBusy) for error in errors)
    whole = [reader for reader, error in zip(readers, errors, strict=True) if error is None]
    assert whole and all(reader.chain.rounds[0].turns[0].text == "one whole answer" for reader in whole)


def test_two_streams_made_before_either_is_read_do_not_mix(relay: Relay) -> None:
    first, second = relay.chain([PLAN]).stream("Sort."), relay.chain([CODE]).stream("Sort.")
    next(first)
    with pytest.raises(EngineBusy):
        next(second)
    assert [type(event).__name__ for event in first][-1] == "ChainFinished"


def test_closing_a_half_read_stream_cancels_the_turn_and_frees_the_engine(engine: FakeEngine, relay: Relay) -> None:
    chain = relay.chain([PLAN, CODE])
    stream = chain.stream("Sort.")
    next(event for event in stream if isinstance(event, TextDelta) and event.n_tokens == 3)
    stream.close()
    assert [(turn.text, turn.finish_reason, bytes(turn.tokens)) for turn in chain.rounds[0].turns] == [("Und", "cancelled", b"Und")]
    assert not engine.in_generate.is_set()
    assert chain.run("Again.").turns[1].text == "Understood."


def test_a_stream_dropped_during_prefill_waits_for_the_engine_and_frees_it(engine: FakeEngine, relay: Relay) -> None:
    engine.prefill_gate.clear()
    chain = relay.chain([PLAN])
    stream = chain.stream("Sort.")
    next(event for event in stream if event == Phase("suffix"))
    del stream
    gc.collect()
    assert not engine.in_prefill.is_set()
    engine.prefill_gate.set()
    assert chain.run("Again.").text == "Understood."
