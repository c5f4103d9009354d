"""Closing a model while it is used, half read, dropped or forked."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest
from support.fakes import FakeEngine
from support.reader import SOON_S, Reader, until
from support.scripted_chain import PLAN

from relaylite.api import Relay
from relaylite.errors import EngineClosed
from relaylite.events import TextDelta


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


def test_closing_while_a_full_prefill_is_measured_says_so(engine: FakeEngine, relay: Relay) -> None:
    chain = relay.chain([PLAN])
    chain.run("Sort.")
    engine.prefill_gate.clear()
    threading.Thread(target=lambda: (engine.in_prefill.wait(SOON_S), relay.close())).start()
    with pytest.raises(EngineClosed, match="while it was writing"):
        chain.measure_full(0, 0)


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
from support.fakes import FakeEngine
from relaylite import Agent, Relay
builtins.kept = Relay(engine=FakeEngine()).chain([Agent("plan", "Plan.")]).stream("Sort.")
while type(next(builtins.kept)).__name__ != "TextDelta":
    pass
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
