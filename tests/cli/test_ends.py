"""How a command ends as a process, on a scripted engine: signals at any moment, readers that went away, and encodings of its output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from relaylite.cli.document import Document

TESTS = Path(__file__).parent.parent
TIMEOUT_S = 120
PROGRAM = """
import sys
sys.path.append(sys.argv.pop(1))
from support.fakes import FakeEngine
from relaylite import api
from relaylite.__main__ import main

class Telling(FakeEngine):
    def _wait(self, gate, seconds):
        print("at work", file=sys.stderr, flush=True)
        super()._wait(gate, seconds)

engine = Telling()
engine.enqueue("naïve — 日本 answer")
if {is_slow}:
    engine.token_delay = 60.0
api._open = lambda *_, **__: engine
main()
"""


def started(*args: str, is_slow: bool = False, ignores: int = 0, **streams: int) -> subprocess.Popen[bytes]:
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    command = [sys.executable, "-c", PROGRAM.format(is_slow=is_slow), str(TESTS), *args]
    before = signal.signal(ignores, signal.SIG_IGN) if ignores else None
    try:
        return subprocess.Popen(command, **pipes)  # type: ignore[call-overload,no-any-return]
    finally:
        if ignores:
            signal.signal(ignores, before)


def wait_for_work(process: subprocess.Popen[bytes]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if line == b"at work\n":
            return
    raise AssertionError("it ended before")


RUN = ("run", "Do.", "-a", "plan", "-p", "full", "-q")


@pytest.mark.parametrize("command", [RUN, (*RUN, "--json")], ids=["text", "json"])
def test_hanging_up_stops_a_run_as_sigterm_does(command: tuple[str, ...]) -> None:
    process = started(*command, is_slow=True)
    wait_for_work(process)
    process.send_signal(signal.SIGHUP)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 129 and err.decode().splitlines()[-1] == "relaylite: stopped before anything was written"
    assert "--json" not in command or json.loads(out)["error"] == "stopped before anything was written"


def test_hanging_up_keeps_a_conversation(home: Path) -> None:
    process = started("chat", "-a", "plan", "-p", "full", "--session", "work", stdin=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"first\n")
    process.stdin.flush()
    wait_for_work(process)
    while "answer" not in process.stdout.readline().decode():
        pass
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=TIMEOUT_S)
    kept = json.loads((home / "data" / "sessions" / "work.json").read_text(encoding="utf-8"))
    assert process.returncode == 129 and kept["rounds"][0]["turns"][0]["text"].endswith("answer")


def test_under_nohup_hanging_up_is_nothing() -> None:
    process = started(*RUN, ignores=signal.SIGHUP)
    wait_for_work(process)
    process.send_signal(signal.SIGHUP)
    assert process.wait(TIMEOUT_S) == 0


@pytest.mark.parametrize("command", [RUN, (*RUN, "--json"), (*RUN, "--last")], ids=["text", "json", "last"])
def test_a_run_that_nobody_reads_stops_and_its_exit_code_says_so(command: tuple[str, ...]) -> None:
    process = started(*command, is_slow=True)
    wait_for_work(process)
    assert process.stdout is not None
    process.stdout.close()
    code = process.wait(TIMEOUT_S / 3)  # a token takes a minute
    assert code == 141, process.stderr and process.stderr.read()


def test_nobody_there_for_errors_either() -> None:
    process = started(*RUN, is_slow=True)
    wait_for_work(process)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    process.stderr.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT_S / 3) in (141, 143)


def test_ctrl_c_again_and_again_is_one_exit_code() -> None:
    """Also while Python goes down."""
    process = started(*RUN, is_slow=True)
    wait_for_work(process)
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.002)
    assert process.stderr is not None
    assert process.returncode == 130 and b"Traceback" not in process.stderr.read()


IMPORTING = """
import signal, sys
import relaylite.__main__

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
relaylite.__main__.main()
"""


@pytest.mark.parametrize("name", ["relaylite.cli", "click", "relaylite.cli.document", "relaylite.cli.commands.run", "relaylite.settings"])
def test_ctrl_c_during_imports_is_one_line(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTING.format(name=name), "run", ""], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "relaylite: stopped\n")


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "latin-1", "ascii", "cp437"])
def test_json_is_right_whatever_the_encoding_of_the_output(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    process = started(*RUN, "--json")
    out, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0 and json.loads(out.decode("utf-8"))["agents"][0]["text"] == "naïve — 日本 answer"
    assert ("日本".encode() in out) is (encoding == "utf-8")


def test_json_of_a_text_that_utf_8_has_not_is_ascii() -> None:
    document = Document(["--json"])
    document.value = {"file": os.fsdecode(b"\xff.md"), "text": "日本"}
    text = document.text(None, "UTF-8")
    assert text is not None and text.isascii() and json.loads(text) == document.value
