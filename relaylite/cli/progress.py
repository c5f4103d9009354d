"""`with_progress`: long work of a command, with a bar on stderr, or lines, that show how much of it is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from relaylite.cli.interrupts import Work
from relaylite.cli.terminal import Output

OnProgress = Callable[[float, str], None]  # gets the share that is done, in [0, 1], and what is done now
Found = TypeVar("Found")


def with_progress(function: Callable[[OnProgress], Found], cancel: Callable[[], None], output: Output) -> Found:
    """What `function` returns; it runs in a thread of its own. Ctrl-C and SIGTERM call `cancel`, as `Work` says."""
    found: list[Found] = []

    def work(post: Callable[[tuple[float, str]], None]) -> None:
        found.append(function(lambda done, what: post((done, what))))

    for done, what in Work(work, cancel, tick=output.tick):
        output.progress(done, what)
    output.end_progress()
    return found[0]
