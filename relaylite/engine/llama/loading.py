"""`Load`: native loading in a thread of its own, so that the thread that asked for it can be interrupted.

Python runs signal handlers in the main thread, between two of its own instructions, and ctypes drops what a callback raises. So the
thread that opens a model must not be the one that llama.cpp keeps: mapping a large file alone may take it half a minute.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from relaylite.engine.held import Closable

POLL_S = 0.1
LEAVE_S = 0.8  # how long a load that is no longer wanted may go on before nobody waits for it


Loaded = TypeVar("Loaded", bound=Closable)


class Load(Generic[Loaded]):
    """`load(go_on)`, in a thread. `load` calls `go_on(fraction)` now and then, and gives up when that is False."""

    def __init__(self, load: Callable[[Callable[[float], bool]], Loaded]) -> None:
        self._load = load
        self._news: SimpleQueue[float | None] = SimpleQueue()  # None: the load has ended
        self._is_wanted = True
        self._ending = threading.Lock()
        self._loaded: Loaded | None = None
        self._error: BaseException | None = None

    def result(self, on_progress: Callable[[float], None]) -> Loaded:
        """Wait for what `load` returns; what it raises is raised here.

        `on_progress(fraction)` is called in this thread, at least every 0.1 s. If it raises, or a signal does, the load is stopped and
        the error goes on within a second. What is loaded by then, or is loaded later, is closed.
        """
        thread = threading.Thread(target=self._work, daemon=True)
        try:
            thread.start()
            fraction: float | None = 0.0
            while fraction is not None:
                on_progress(fraction)
                fraction = self._next(fraction)
            if self._error is not None:
                raise self._error
            assert self._loaded is not None
            return self._loaded
        except BaseException:
            self._is_wanted = False
            try:
                if thread.is_alive():
                    thread.join(LEAVE_S)
            finally:
                self._drop()
            raise

    def _next(self, fraction: float) -> float | None:
        try:
            return self._news.get(timeout=POLL_S)  # a signal that another thread took does not wake this one
        except Empty:
            return fraction

    def _work(self) -> None:
        try:
            loaded = self._load(self._go_on)
            with self._ending:
                self._loaded = loaded
        except BaseException as error:
            self._error = error
        self._news.put(None)
        if not self._is_wanted:
            self._drop()

    def _go_on(self, fraction: float) -> bool:
        self._news.put(fraction)
        return self._is_wanted

    def _drop(self) -> None:
        """Close what was loaded, once."""
        with self._ending:
            loaded, self._loaded = self._loaded, None
        if loaded is not None:
            loaded.close()
