"""`Reader`: reads a chain's answer in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from relaylite.chain.chain import Chain
from relaylite.events import Event

SOON_S = 5.0  # a limit against hanging, not a measurement


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
