"""`Held`: native objects that belong to one engine and are freed together."""

from __future__ import annotations

import os
from typing import Protocol, TypeVar

from relaylite.errors import EngineClosed


class Closable(Protocol):
    def close(self) -> None: ...


Thing = TypeVar("Thing", bound=Closable)


class Held:
    """Closes what it keeps, the last one first. Only in the process that made it: a forked one has no threads of llama.cpp, and freeing
    would wait for them."""

    def __init__(self) -> None:
        self.things: list[Closable] = []
        self._process = os.getpid()

    def keep(self, thing: Thing) -> Thing:
        self.things.append(thing)
        return thing

    def check_open(self) -> None:
        """Raise EngineClosed after `close`, and in a forked process."""
        if not self.things:
            raise EngineClosed("the model is closed; open it again")
        if os.getpid() != self._process:
            raise EngineClosed("the model was loaded before this process was forked; open it again here")

    def close(self) -> None:
        """A second time it does nothing."""
        while self.things and os.getpid() == self._process:
            self.things.pop().close()
