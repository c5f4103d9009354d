"""The real thing: the app in a terminal of tmux, on the default model."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
START = "from relaylite.cli import main; main()"

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux: apt-get install tmux")


class Terminal:
    """A tmux server of its own with one pane, 100 by 30."""

    def __init__(self, home: Path) -> None:
        self.name = f"relaylite-{os.getpid()}-{home.name}"
        self.home = home

    def tmux(self, *arguments: str) -> str:
        return subprocess.run(["tmux", "-L", self.name, "-f", "/dev/null", *arguments], capture_output=True, text=True, check=True).stdout

    def start(self, *arguments: str) -> None:
        variables = {"RELAYLITE_HOME": str(self.home), "LANG": "C.UTF-8", "TERM": "screen-256color"}
        if os.environ.get("PYTHONPATH"):
            variables["PYTHONPATH"] = os.environ["PYTHONPATH"]
        command = shlex.join(["env", *(f"{k}={v}" for k, v in variables.items()), sys.executable, "-c", START, *arguments])
        self.tmux("-u", "new-session", "-d", "-x", "100", "-y", "30", f"{command}; echo EXIT=$?; sleep 600")

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def keys(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def wait(self, text: str, seconds: float = 120.0) -> str:
        """The screen, as soon as it shows `text`."""
        end = time.monotonic() + seconds
        while text not in (screen := self.screen()):
            assert time.monotonic() < end, f"{text!r} did not appear:\n{screen}\n{self.log()}"
            time.sleep(0.2)
        return screen

    def start_writing(self, message: str) -> None:
        """Send `message` until its answer is being written: at temperature 1.5 an answer may end at once."""
        while "● plan writing" not in self.screen():
            self.keys(message, "Enter")
            end = time.monotonic() + 10
            while "● plan writing" not in self.screen() and time.monotonic() < end:
                time.sleep(0.2)

    def log(self) -> str:
        file = self.home / "logs" / "tui.log"
        return file.read_text(errors="replace") if file.exists() else ""


@pytest.fixture
def terminal(home: Path, default_model_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(home)
    yield terminal
    subprocess.run(["tmux", "-L", terminal.name, "kill-server"], capture_output=True, check=False)


def test_two_agents_answer_in_a_terminal_and_quitting_leaves_it_clean(terminal: Terminal) -> None:
    terminal.start("chat", "--agents", "plan,code", "--max-tokens", "24")
    terminal.wait("SmolLM2-135M")
    terminal.keys("Say hello.", "C-j", "In two lines.", "Enter")
    screen = terminal.wait("✓ plan » ✓ code")
    assert "Say hello." in screen and "In two lines." in screen
    assert "▼ plan ✓" in screen and "▼ code ✓" in screen and "TTFT" in screen
    assert screen.splitlines()[0].startswith(" relaylite"), "something was written over the screen"
    terminal.keys("F3")
    terminal.wait("deviation")
    terminal.keys("Escape")
    terminal.wait("Message to the agents")
    terminal.keys("C-q")
    screen = terminal.wait("EXIT=")
    assert "EXIT=0" in screen and "Traceback" not in screen and "▼ plan" not in screen
    assert "Traceback" not in terminal.log()


def test_esc_stops_and_quitting_while_the_model_writes_ends_the_process(terminal: Terminal) -> None:
    terminal.start("chat", "--agents", "plan", "--max-tokens", "-1", "--temperature", "1.5", "--seed", "7")
    terminal.wait("SmolLM2-135M")
    terminal.keys("Count to a thousand.", "Enter")
    terminal.wait("● plan writing")
    terminal.keys("Escape")
    terminal.wait("■ plan stopped", 10)
    terminal.start_writing("Again.")
    terminal.keys("C-c")
    terminal.wait("Ctrl+C again")
    terminal.keys("C-c")
    screen = terminal.wait("EXIT=", 20)
    assert "EXIT=0" in screen and "Traceback" not in screen


def test_sigterm_leaves_as_quitting_does_and_keeps_the_conversation(terminal: Terminal) -> None:
    terminal.start("chat", "--agents", "plan", "--max-tokens", "-1", "--temperature", "1.5", "--session", "long")
    terminal.wait("SmolLM2-135M")
    terminal.keys("Count to a thousand.", "Enter")
    terminal.wait("● plan writing")
    shell = terminal.tmux("display-message", "-p", "#{pane_pid}").strip()
    subprocess.run(["pkill", "-TERM", "-P", shell], check=True)
    screen = terminal.wait("EXIT=", 20)
    assert "relaylite: stopped" in screen and "EXIT=143" in screen and "Traceback" not in screen
    [saved] = (terminal.home / "data" / "sessions").glob("*.json")
    assert "Count to a thousand." in saved.read_text()


def test_a_missing_model_is_a_notice_in_the_app(terminal: Terminal) -> None:
    terminal.start("chat", "--model", "/no/such/model.gguf")
    terminal.wait("Ctrl+L chooses another")
    terminal.keys("C-q")
    assert "EXIT=0" in terminal.wait("EXIT=")
