"""`Output`: the only door to stdout and stderr. What a model or a file says never becomes a command to the terminal."""

from __future__ import annotations

import os
import sys
import time
from typing import TextIO

import click

from relaylite.terminal_text import fit_for_terminal

LINE_EVERY_S = 10.0


def bar(share: float) -> str:
    """A bar that is filled up to `share` of its 30 characters."""
    return ("█" * int(share * 30)).ljust(30, "░")


class Output:
    """Answers on stdout, everything else on stderr. `quiet` leaves out what is neither an answer nor a notice nor an error."""

    def __init__(self, *, quiet: bool = False, stdout: TextIO | None = None, stderr: TextIO | None = None) -> None:
        self.quiet = quiet
        self._stdout, self._stderr = stdout or sys.stdout, stderr or sys.stderr
        self._at_line_start = True
        self._status = ""
        self._progress, self._next_line_s = "", time.monotonic() + LINE_EVERY_S
        for stream in (self._stdout, self._stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")

    def write(self, text: str) -> None:
        """Text to stdout, at once; made fit for a terminal if that is one."""
        self._emit(fit_for_terminal(text) if self._stdout.isatty() else text)

    def line(self, text: str = "", *, color: str = "") -> None:
        """A line of its own on stdout: no name or file that stands in it can begin another one."""
        self.end_line()
        self._emit(_colored(_unbroken(text), color, self._stdout) + "\n")

    def end_line(self) -> None:
        """Go to the next line of stdout unless at the start of one."""
        if not self._at_line_start:
            self._emit("\n")

    def note(self, text: str) -> None:
        """A line on stderr, unless quiet."""
        if not self.quiet:
            self._say(text)

    def notice(self, text: str) -> None:
        """A line on stderr that a user should read, also if quiet: relaying is off, an old message is not read any more."""
        self._say(f"note: {text}")

    def error(self, text: str) -> None:
        """A line on stderr about what could not be done, also if quiet."""
        self._say(f"relaylite: {text}")

    def _say(self, text: str) -> None:
        if self._stdout.isatty():
            self.end_line()
        self.status("")
        print(fit_for_terminal(text), file=self._stderr, flush=True)

    def status(self, text: str) -> None:
        """A line on stderr that the next output replaces; only where stderr is a terminal."""
        if text == self._status or self.quiet or not self._at_line_start or not self._stderr.isatty():
            return
        self._status = text
        self._stderr.write("\r\x1b[K" + _unbroken(text))
        self._stderr.flush()

    def progress(self, share: float, what: str) -> None:
        """How far long work is, as a status with a bar; where stderr is no terminal, `tick` says it now and then."""
        self.status(f"{bar(share)} {share:4.0%} {what}")
        self._progress = f"{share:.0%} {what}"

    def download(self, name: str, done: int, total: int) -> None:
        """How far a download is."""
        self.progress(done / total if total else 0.0, f"{name}: {done / 1e6:.0f} of {total / 1e6:.0f} MB")

    def end_progress(self) -> None:
        self.status("")
        self._progress = ""

    def tick(self) -> None:
        """To be called often while work goes on: says every LINE_EVERY_S how far it is, as a line, where stderr is no terminal."""
        if self._progress and time.monotonic() >= self._next_line_s and not self._stderr.isatty():
            self._next_line_s = time.monotonic() + LINE_EVERY_S
            self.note(self._progress)

    def _emit(self, text: str) -> None:
        if not text:
            return
        self.status("")
        self._stdout.write(text)
        self._stdout.flush()
        self._at_line_start = text.endswith("\n")


def _unbroken(text: str) -> str:
    """`text` fit for a terminal, with spaces in place of the ends of its lines."""
    return fit_for_terminal(text).replace("\n", " ")


def _colored(text: str, color: str, stream: TextIO) -> str:
    if not color or "NO_COLOR" in os.environ or not stream.isatty():
        return text
    if not color.startswith("#"):
        return click.style(text, fg=color, bold=True)
    red, green, blue = bytes.fromhex(color[1:])
    return click.style(text, fg=(red, green, blue), bold=True)
