"""The whole program in a terminal of its own: a process on a pseudo-terminal, with a scripted engine; keys in, bytes out."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping
from pathlib import Path

TESTS = Path(__file__).parents[1]
START = """\
import relaylite.tui.start as start
from relaylite.cli import main
from support.app_driver import ScriptedOpener
from support.fakes import FakeEngine
engine = FakeEngine()
start.ModelOpener = lambda settings: ScriptedOpener(engine)
{preparation}
main({arguments!r})
"""


class PtyApp:
    """`relaylite ARGUMENTS`; `preparation` is Python run before it, with `engine` and `start` (the module `tui/start.py`) at hand."""

    def __init__(
        self,
        *arguments: str,
        preparation: str = "",
        size: tuple[int, int] = (80, 24),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._terminal, other = pty.openpty()
        self.resize(*size)
        code = START.format(preparation=preparation, arguments=list(arguments))
        variables = {**os.environ, "PYTHONPATH": str(TESTS), "TERM": "xterm-256color", "COLORTERM": "truecolor", **(environment or {})}
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=other, stdout=other, stderr=other, env=variables, start_new_session=True
        )
        os.close(other)
        self._received = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._terminal, 65536)
            except OSError:  # the process has ended
                return
            if not data:
                return
            self._received += data

    @property
    def received(self) -> bytes:
        """All bytes that were written to the terminal until now."""
        return bytes(self._received)

    def send(self, data: bytes | str) -> None:
        os.write(self._terminal, data.encode() if isinstance(data, str) else data)

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        if hasattr(self, "process"):
            self.process.send_signal(signal.SIGWINCH)

    def wait_for(self, text: str, after: int = 0, seconds: float = 60.0) -> int:
        """Until `text` was written behind the first `after` bytes; how many bytes there are then."""
        end = time.monotonic() + seconds
        while text.encode() not in self._received[after:]:
            if time.monotonic() > end or (self.process.poll() is not None and not self._reader.is_alive()):
                raise AssertionError(f"{text!r} did not come:\n{bytes(self._received[after:])[-3000:]!r}")
            time.sleep(0.02)
        return len(self._received)

    def wait_end(self, seconds: float = 60.0) -> int:
        """The exit code."""
        code = self.process.wait(seconds)
        self._reader.join(5.0)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join(5.0)
        os.close(self._terminal)
