"""One engine, used by one run at a time: cancelling, refusing, closing and forking, from this thread and others."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from fakes import FakeEngine

from relaylite.agents import Agent
from relaylite.api import Relay
from relaylite.chain import Chain
from relaylite.errors import Cancelled, EngineBusy, EngineClosed
from relaylite.events import Event, Phase, PrefillDone, TextDelta, TurnFinished
from relaylite.plan import Kind
from relaylite.sampling import Sampling
from relaylite.seam import Delta

PLAN = Agent("plan", "Make a plan.")
CODE = Agent("code", "Write the code.")
SOON_S = 5.0  # a limit against hanging, not a measurement


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def relay(engine: FakeEngine) -> Relay:
    return Relay(engine=engine, policy="naive", store_bytes=10**8)


class Reader(threading.Thread):
    """Reads a chain's answer to `task` in a thread of its own."""

    def __init__(self, chain: Chain, task: str = "Sort.") -> None:
        super().__init__(daemon=True)
        self.chain, self.task = chain, task
        self.events: list[Event] = []
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            for event in self.chain.stream(self.task):
                self.events.append(event)
        except BaseException as error:
            self.error = error

    def finish(self) -> BaseException | None:
        self.join(SOON_S)
        assert not self.is_alive(), "the run does not end"
        return self.error


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < deadline, "it does not come to that"
        time.sleep(0.002)


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


def test_the_ids_of_a_half_read_answer_are_asked_for_when_the_engine_has_ended_it(engine: FakeEngine, relay: Relay) -> None:
    """llama.cpp's engine knows them only then."""
    original, sampled = engine.generate, []

    def generate(sampling: Sampling) -> Generator[Delta, None, None]:
        try:
            for delta in original(sampling):
                sampled.append(delta.token)
                engine.answer_tokens = ()
                yield delta
        finally:
            engine.answer_tokens = tuple(sampled)

    engine.generate = generate  # type: ignore[method-assign]
    chain = relay.chain([PLAN])
    stream = chain.stream("Sort.")
    next(event for event in stream if isinstance(event, TextDelta) and event.n_tokens == 3)
    stream.close()
    assert bytes(chain.rounds[0].turns[0].tokens) == b"Und"


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


# closing


def test_a_closed_model_refuses_everything_in_one_line(engine: FakeEngine) -> None:
    with Relay(engine=engine, store_bytes=0) as relay:
        chain = relay.chain([PLAN])
        chain.run("Sort.")
    assert engine.is_closed
    relay.close()
    for call in (
        lambda: chain.stream("More."),
        lambda: chain.edit(0, 0, "text"),
        lambda: chain.measure_full(0, 0),
        lambda: relay.chain([PLAN]),
        lambda: relay.chain_from_dict({}),
        lambda: relay.piece(65),
        relay.memory,
    ):
        with pytest.raises(EngineClosed, match=r"the model is closed; open it again with Relay\(...\)"):
            call()
    assert chain.to_dict()["rounds"][0]["turns"][0]["text"] == "Understood."


def test_closing_while_another_thread_generates_cancels_it_first(engine: FakeEngine, relay: Relay) -> None:
    engine.token_gate.clear()
    reader = Reader(relay.chain([PLAN]))
    assert engine.in_generate.wait(SOON_S)
    relay.close()
    assert engine.is_closed and not engine.in_generate.is_set()
    error = reader.finish()
    assert isinstance(error, EngineClosed) and "while it was writing" in str(error)


def test_closing_while_another_thread_prefills_cancels_it_first(engine: FakeEngine, relay: Relay) -> None:
    engine.prefill_gate.clear()
    reader = Reader(relay.chain([PLAN]))
    assert engine.in_prefill.wait(SOON_S)
    relay.close()
    assert engine.is_closed and not engine.in_prefill.is_set()
    assert isinstance(reader.finish(), EngineClosed)


def test_a_slow_reader_in_another_thread_gets_the_error_when_it_reads_on(relay: Relay) -> None:
    chain, errors, began = relay.chain([PLAN]), [], threading.Event()

    def read() -> None:
        try:
            for event in chain.stream("Sort."):
                if isinstance(event, TextDelta):
                    began.set()
                    time.sleep(0.2)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    assert began.wait(SOON_S)
    relay.close()
    thread.join(SOON_S)
    assert [type(error) for error in errors] == [EngineClosed]


def test_a_stream_that_another_thread_left_half_read_is_ended(engine: FakeEngine, relay: Relay) -> None:
    streams = []

    def begin() -> None:
        streams.append(relay.chain([PLAN]).stream("Sort."))
        next(event for event in streams[0] if isinstance(event, TextDelta))

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join(SOON_S)
    relay.close()
    assert engine.is_closed and list(streams[0]) == []


def test_closing_with_a_stream_half_read_ends_the_stream(engine: FakeEngine, relay: Relay) -> None:
    chain = relay.chain([PLAN])
    stream = chain.stream("Sort.")
    next(event for event in stream if isinstance(event, TextDelta))
    relay.close()
    assert engine.is_closed
    assert list(stream) == []
    assert chain.rounds[0].turns[0].finish_reason == "cancelled"


def test_run_does_not_take_a_stream_that_was_ended_for_a_finished_one(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = relay.chain([PLAN])
    half = chain.stream("Sort.")
    next(half)
    half.close()
    monkeypatch.setattr(chain, "stream", lambda task, **_: half)
    with pytest.raises(EngineClosed, match="while it was writing"):
        chain.run("Sort.")


def test_run_does_not_take_a_closed_model_for_a_finished_answer(engine: FakeEngine, relay: Relay) -> None:
    chain = relay.chain([PLAN])
    engine.token_gate.clear()
    threading.Thread(target=lambda: (engine.in_generate.wait(SOON_S), relay.close())).start()
    with pytest.raises(EngineClosed, match="while it was writing"):
        chain.run("Sort.")


def test_a_relay_dropped_without_close_leaves_no_thread_and_no_engine() -> None:
    before = set(threading.enumerate())
    engine = FakeEngine()
    relay = Relay(engine=engine, store_bytes=10**6)
    stream = relay.chain([PLAN]).stream("Sort.")
    next(event for event in stream if isinstance(event, TextDelta))
    seen = weakref.ref(engine)
    del relay, stream, engine
    gc.collect()
    assert seen() is None
    until(lambda: set(threading.enumerate()) <= before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_is_told_to_open_the_model_anew(relay: Relay) -> None:
    chain = relay.chain([PLAN])
    chain.run("Sort.")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            chain.stream("More.")
        except EngineClosed as error:
            os.write(writing, str(error).encode())
        relay.close()
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as answer:
        assert answer.read() == "the model was loaded before this process was forked; open it again here with Relay(...)"
    assert chain.run("More.").text == "Understood."


def test_a_stream_half_read_when_python_ends_is_no_noise() -> None:
    script = """
import builtins
from fakes import FakeEngine
from relaylite import Agent, Relay
builtins.kept = Relay(engine=FakeEngine()).chain([Agent("plan", "Plan.")]).stream("Sort.")
while type(next(builtins.kept)).__name__ != "TextDelta":
    pass
"""
    root = Path(__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": f"{root}:{root / 'tests'}"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
