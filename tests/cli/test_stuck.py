"""Native work that never stops: the process ends all the same, with the code of what ended the command."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
TIMEOUT_S = 120
SOON_S = 2.0  # a second, and some for a busy machine
PROGRAM = """
import sys, threading
sys.path.append(sys.argv.pop(1))
from support.fakes import FakeEngine
from relaylite import api, cli
from relaylite.runs import runner
from relaylite.cli import interrupts

class Stuck(FakeEngine):
    def _wait(self, gate, seconds):
        if {where}:
            print("stuck\\n", end="", flush=True)  # in one piece: the main thread writes too
            threading.Event().wait()

interrupts.GRACE_S = runner.CLOSE_TIMEOUT_S = 0.2
api._open = lambda *_, **__: Stuck()
cli.main()
"""


def stuck(where: str, *args: str) -> subprocess.Popen[str]:
    """The command, on an engine that never comes back from `where`; it is there when this returns."""
    command = [sys.executable, "-c", PROGRAM.format(where=where), str(TESTS), *args]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, encoding="utf-8")
    assert process.stdin is not None and process.stdout is not None
    if args[0] == "chat":
        process.stdin.write("A message that makes the past long enough for a settling.\n")
        process.stdin.flush()
    for line in process.stdout:
        if line == "stuck\n":
            return process
    raise AssertionError(process.communicate())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_cannot_be_stopped_is_left(number: int, code: int) -> None:
    process = stuck("self.in_prefill.is_set()", "run", "Do.", "-a", "plan", "--quiet")
    process.send_signal(number)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (code, "relaylite: stopped before anything was written\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_settling_that_cannot_be_stopped_does_not_hide_the_interrupt(monkeypatch: pytest.MonkeyPatch, number: int, code: int) -> None:
    monkeypatch.setenv("RELAYLITE_SETTLE_AFTER_S", "0.01")
    process = stuck("len(self.plans) > 2", "chat", "-a", "plan,code", "-p", "naive", "--quiet")
    process.send_signal(number)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (code, "relaylite: stopped; the model did not stop within 0 s; it is freed when the process ends\n")


LOADING = """
import threading
from relaylite import cli
from relaylite.engine import llama

def load(*args, **options):
    print("loading", flush=True)
    threading.Event().wait()

llama.Model.__init__ = load
cli.main()
"""


@pytest.mark.parametrize("command", [["run", "Do.", "-a", "plan"], ["info"], ["profile"]], ids=lambda command: command[0])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_load_that_cannot_be_stopped_is_left(command: list[str], number: int, code: int) -> None:
    """As where the file comes from a slow disk: llama.cpp asks nobody until it has mapped all of it."""
    process = subprocess.Popen([sys.executable, "-c", LOADING, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "loading\n"
    process.send_signal(number)
    sent = time.perf_counter()
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == code and time.perf_counter() - sent < SOON_S
    assert err.endswith("relaylite: stopped before the model was open; what was fetched of it is kept\n") and err.count("\n") <= 1, err
