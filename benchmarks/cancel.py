"""How long Ctrl-C and SIGTERM take, in real `relaylite` processes: while a model loads, a prompt is read, rows are recomputed, an answer is
written, a model is fetched. From the signal to the end of the process; exit code, kept answer and half-written files are checked too.

    python benchmarks/cancel.py [--model MODEL] [--threads N] [--n 5] [--keep]

Prints one JSON document; `--keep` keeps it in benchmarks/measured/cancel.json. Linux.
"""

from __future__ import annotations

import json
import os
import pty
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from keeping import keep
from opened import parser_of
from support.hub_server import Hub, serve

from relaylite.bench import machine
from relaylite.gguf.catalog import resolve_model

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
LONG_TASK = "Say what follows in your own words. " + "The quick brown fox jumps over the lazy dog. " * 60


@dataclass(frozen=True)
class Phase:
    """What is run, what the terminal shows when the phase has begun, and how much later (at most) the signal comes."""

    name: str
    arguments: tuple[str, ...]
    shows: str
    within_s: float


PHASES = (
    Phase("loading", ("run", "Say hello.", "-n", "8"), "loading ", 0.1),
    Phase("reading a prompt", ("run", LONG_TASK, "--ctx", "4096", "-n", "8"), " reads", 1.0),
    Phase("recomputing rows", ("run", LONG_TASK, "-a", "plan,code", "--ctx", "4096", "-n", "8"), "recomputes rows", 0.2),
    Phase("writing", ("run", "Tell a long story.", "-a", "write", "-n", "2000"), " writes", 1.0),
    Phase("fetching a model", ("models", "pull", "hf:o/r/m.gguf"), "", 0.5),
)


@dataclass(frozen=True)
class Ended:
    """How a process that got a signal ended; `cpu_seconds`: what it and its threads worked after the signal."""

    seconds: float
    cpu_seconds: float
    code: int
    out: str
    err: str


class Terminal:
    """A process whose stderr is a terminal; what it shows is read all the time, so that it never waits for us."""

    def __init__(self, arguments: tuple[str, ...], home: Path, environment: dict[str, str]) -> None:
        ours, theirs = pty.openpty()
        variables = {**os.environ, "RELAYLITE_HOME": str(home), "HF_HUB_CACHE": str(home / "hub"), **environment}
        command = [sys.executable, "-m", "relaylite", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, env=variables)
        os.close(theirs)
        self.seen, self.out = "", b""
        self._readers = [threading.Thread(target=self._watch, args=(ours,)), threading.Thread(target=self._collect)]
        for reader in self._readers:
            reader.start()

    def _watch(self, end: int) -> None:
        try:
            while part := os.read(end, 4096):
                self.seen += part.decode(errors="replace")
        except OSError:  # the other end was closed
            pass
        os.close(end)

    def _collect(self) -> None:
        assert self.process.stdout is not None
        self.out = self.process.stdout.read()

    def interrupt(self, number: int) -> Ended:
        before = self._cpu_seconds()
        started = time.perf_counter()
        self.process.send_signal(number)
        _, status, usage = os.wait4(self.process.pid, 0)
        seconds = time.perf_counter() - started
        for reader in self._readers:
            reader.join()
        worked = usage.ru_utime + usage.ru_stime - before
        return Ended(seconds, worked, os.waitstatus_to_exitcode(status), self.out.decode(), self.seen)

    def _cpu_seconds(self) -> float:
        numbers = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def one(phase: Phase, number: int, home: Path, environment: dict[str, str]) -> Ended:
    terminal = Terminal(phase.arguments, home, environment)
    while phase.shows not in terminal.seen or not begun(phase, home):
        if terminal.process.poll() is not None:
            raise SystemExit(f"{phase.name}: ended with {terminal.process.returncode} before the signal: {terminal.seen[-300:]}")
        time.sleep(0.005)
    time.sleep(random.uniform(0, phase.within_s))
    return terminal.interrupt(number)


def begun(phase: Phase, home: Path) -> bool:
    """A download shows nothing before its first bytes are there."""
    return phase.name != "fetching a model" or any(part.stat().st_size for part in (home / "hub").glob("**/blobs/*.part"))


def check(phase: Phase, number: int, ended: Ended, home: Path) -> None:
    """What must hold whenever the signal came."""
    assert ended.code == CODES[signal.Signals(number)], (phase.name, ended.code, ended.err[-300:])
    assert "Traceback" not in ended.err, ended.err[-2000:]
    if phase.name == "writing":
        assert ended.out.startswith("## write\n") and ended.out.endswith("\n") and len(ended.out) > len("## write\n"), ended.out
    if phase.name == "fetching a model":
        assert not list((home / "hub").glob("**/snapshots/*/*")), "half a file counts as a model"


def measured(n: int, environment: dict[str, str]) -> Iterator[dict[str, Any]]:
    for phase in PHASES:
        for number in CODES:
            seconds, worked = [], []
            for _ in range(n):
                with tempfile.TemporaryDirectory() as home:
                    ended = one(phase, number, Path(home), environment)
                    check(phase, number, ended, Path(home))
                    seconds.append(round(ended.seconds, 3))
                    worked.append(round(ended.cpu_seconds, 2))
            row = {"phase": phase.name, "signal": number.name, "exit_code": CODES[number], "seconds": seconds, "cpu_seconds": worked}
            print(row, file=sys.stderr, flush=True)
            yield row


@contextmanager
def hub(model: Path) -> Iterator[dict[str, str]]:
    """A server that sends half of the model and then stalls."""
    stall = threading.Event()
    with serve(Hub({"o/r/m.gguf": model.read_bytes()}, stall=stall)) as server:
        yield {"HF_ENDPOINT": server.url, "RELAYLITE_MODEL": str(model)}
        stall.set()


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--n", type=int, default=5, help="of each phase and signal")
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    with hub(resolve_model(args.model)) as environment:
        rows = list(measured(args.n, environment | ({"RELAYLITE_THREADS": str(args.threads)} if args.threads else {})))
    about = {"command": f"python benchmarks/cancel.py --n {args.n}", "load": round(os.getloadavg()[1], 1)}
    document = {**about, "machine": machine.machine(), "versions": machine.versions(), "rows": rows}
    if args.keep:
        keep("cancel", document)
    print(json.dumps(document))


if __name__ == "__main__":
    main()
