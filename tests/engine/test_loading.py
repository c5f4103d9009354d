"""Loading can be stopped: what the reader of progress raises comes out, and so does Ctrl-C, whatever llama.cpp does meanwhile."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relaylite import Relay, paths
from relaylite.engine import llama
from relaylite.engine.engine import Engine
from relaylite.engine.llama import Load
from relaylite.engine.options import EngineOptions
from relaylite.errors import Cancelled, ModelError
from relaylite.gguf import fingerprint
from relaylite.machine import workers

SOON_S = 2.0  # a second, and some for a busy machine


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> list[llama.Model]:
    """Every model that a test loads or begins to load."""
    begun: list[llama.Model] = []
    make = llama.Model.__init__

    def noted(self: llama.Model, *args: Any, **options: Any) -> None:
        begun.append(self)
        make(self, *args, **options)

    monkeypatch.setattr(llama.Model, "__init__", noted)
    return begun


def are_freed(models: list[llama.Model]) -> bool:
    """Soon, at the latest: a load is left to itself if llama.cpp does not ask within a second whether to go on."""
    ends = time.monotonic() + 60
    while any(getattr(model, "pointer", "still loading") for model in models) and time.monotonic() < ends:
        time.sleep(0.01)
    return bool(models) and all(model.pointer is None for model in models)


def raising_from(start: float, error: BaseException) -> Callable[[float], None]:
    def on_progress(fraction: float) -> None:
        if fraction >= start:
            raise error

    return on_progress


@pytest.mark.parametrize("start", [0.0, 0.3, 1.0], ids=["at once", "midway", "while it is checked"])
@pytest.mark.parametrize("error", [Cancelled("stopped"), KeyboardInterrupt(), ZeroDivisionError()], ids=lambda error: type(error).__name__)
def test_what_the_reader_of_progress_raises_stops_the_load(
    start: float, error: BaseException, default_model_path: Path, models: list[llama.Model]
) -> None:
    options = {"n_ctx": 256, "n_threads": 1}
    fingerprint.of_file(default_model_path)
    began = time.perf_counter()
    with pytest.raises(type(error)) as caught:
        Relay(default_model_path, on_progress=raising_from(start, error), **options)
    assert caught.value is error and time.perf_counter() - began < SOON_S
    assert are_freed(models)
    Engine.open(default_model_path, EngineOptions(**options)).close()


def test_a_stop_is_seen_while_the_file_is_hashed(default_model_path: Path, models: list[llama.Model]) -> None:
    """The first time that a file is opened: hundreds of calls, all with 0.0."""
    seen: list[float] = []

    def on_progress(fraction: float) -> None:
        seen.append(fraction)
        if seen.count(0.0) == 20:
            raise Cancelled

    with pytest.raises(Cancelled):
        Engine.open(default_model_path, EngineOptions(n_ctx=256, n_threads=1, on_progress=on_progress))
    assert seen == [0.0] * 20 and not models
    assert not (paths.cache_folder() / "fingerprints.json").exists()


def test_a_load_that_nothing_stops_reports_from_nothing_to_all(tiny_path: Path) -> None:
    seen: list[float] = []
    Engine.open(tiny_path, EngineOptions(n_ctx=256, n_threads=1, on_progress=seen.append)).close()
    assert seen == sorted(seen) and (seen[0], seen[-1]) == (0.0, 1.0)


# native code that does not come back


class Thing:
    """What is loaded, once `released` is set."""

    def __init__(self) -> None:
        self.released, self.closed = threading.Event(), threading.Event()

    def load(self, go_on: Callable[[float], bool]) -> Thing:
        assert self.released.wait(60)
        return self

    def close(self) -> None:
        assert not self.closed.is_set(), "closed twice"
        self.closed.set()


def test_a_load_that_does_not_end_is_left_and_closed_when_it_ends() -> None:
    thing, calls = Thing(), []

    def on_progress(fraction: float) -> None:
        calls.append(fraction)
        if len(calls) == 3:
            raise Cancelled

    with pytest.raises(Cancelled):
        Load(thing.load).result(on_progress)
    assert calls == [0.0] * 3 and not thing.closed.is_set()
    thing.released.set()
    assert thing.closed.wait(60)


def test_what_is_loaded_when_the_stop_comes_is_closed() -> None:
    thing = Thing()
    thing.released.set()
    with pytest.raises(Cancelled):
        Load(thing.load).result(raising_from(0.0, Cancelled()))
    assert thing.closed.is_set()


def test_what_loading_raises_comes_out() -> None:
    def load(go_on: Callable[[float], bool]) -> Thing:
        raise ModelError("damaged")

    with pytest.raises(ModelError, match="damaged"):
        Load(load).result(lambda fraction: None)


def test_a_stop_is_seen_while_a_worker_does_not_answer(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Thing()
    fingerprint.of_file(tiny_path)
    monkeypatch.setattr(workers, "Workers", lambda addresses: asked.load(lambda fraction: True))
    with pytest.raises(Cancelled):
        Engine.open(tiny_path, EngineOptions(rpc=("127.0.0.1:1",), on_progress=raising_from(0.0, Cancelled())))
    asked.released.set()
    assert asked.closed.wait(60)


def test_an_error_of_the_system_in_the_reader_of_progress_is_not_one_of_the_file(tiny_path: Path) -> None:
    error = BrokenPipeError("what reads our output is gone")
    with pytest.raises(BrokenPipeError) as caught:
        Engine.open(tiny_path, EngineOptions(on_progress=raising_from(1.0, error)))
    assert caught.value is error


# Ctrl-C in a script

SCRIPT = """
import sys, time
from relaylite import Relay
from relaylite.engine import llama
load = llama.Model.__init__
def slowly(self, *args, go_on, **options):
    load(self, *args, go_on=lambda fraction: (time.sleep(.05), go_on(fraction))[1], **options)
llama.Model.__init__ = slowly
try:
    Relay(sys.argv[1], n_ctx=256, n_threads=1, on_progress=lambda fraction: print(fraction, flush=True))
except KeyboardInterrupt:
    print("interrupted", flush=True)
llama.Model.__init__ = load
with Relay(sys.argv[1], n_ctx=256, n_threads=1) as relay:
    print(relay.info.name)
"""


def test_ctrl_c_in_a_script_stops_the_load_and_the_next_one_works(default_model_path: Path) -> None:
    """The file has 272 tensors: that slowly it would take 14 s."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(default_model_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while float(process.stdout.readline()) == 0:
        pass
    process.send_signal(signal.SIGINT)
    sent = time.perf_counter()
    after = iter(process.stdout.readline, "")
    assert "interrupted\n" in after and time.perf_counter() - sent < SOON_S
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
