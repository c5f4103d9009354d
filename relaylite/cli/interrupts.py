"""`Work`: runs a function in a thread and gives its news to the main thread, so that Ctrl-C and SIGTERM act at once.

Python runs signal handlers in the main thread, between two of its own instructions. A main thread inside llama.cpp would not notice a
signal for seconds.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Generic, Protocol, TypeVar

GRACE_S = 3.0  # how long cancelled work may take to end before the process leaves without it
POLL_S = 0.1  # a signal that the system gives to another thread does not wake the main thread; its handler runs at the next poll


class Closable(Protocol):
    def close(self) -> None: ...


News = TypeVar("News")
Opened = TypeVar("Opened", bound=Closable)
_END = object()
_running: list[threading.Thread] = []
_unclosed: list[Closable] = []  # held here so that they are not freed under what still uses them


class Interrupted(BaseException):
    """SIGINT came, and the command has ended; `str()` says what was kept, if the command knows."""


class Terminated(BaseException):
    """SIGTERM came; `str()` says what was kept, if the command knows."""


def lost_worker() -> str:
    """What relaylite.machine.workers said of a worker that went away, if SIGTERM came because of that; else ""."""
    rpc = sys.modules.get("relaylite.machine.workers")  # not imported for this: it loads llama.cpp
    return str(rpc.lost) if rpc else ""


def is_anything_left() -> bool:
    """Whether some work was left behind that did not end, or something that could not be closed."""
    return bool(_unclosed) or any(thread.is_alive() for thread in _running)


@contextmanager
def held(opened: Opened) -> Iterator[Opened]:
    """`opened`, closed at the end unless work that may still use it was left behind.

    If the block raised an error, an error of closing becomes a note of it.
    """
    try:
        yield opened
    except BaseException as error:
        if failed := _failed_close(opened):
            error.add_note(str(failed))
        raise
    if failed := _failed_close(opened):
        raise failed


def _failed_close(opened: Closable) -> Exception | None:
    if is_anything_left():
        return None
    try:
        opened.close()
    except Exception as error:
        _unclosed.append(opened)
        return error
    except BaseException:  # interrupted once more
        _unclosed.append(opened)
        raise
    return None


class Work(Generic[News]):
    """`function(post)` in a thread of its own; iterating gives what it posts, and then raises what it raised.

    On the first signal `cancel` is called, and the news go on until the work ends. Then KeyboardInterrupt or Terminated is raised, with
    what `kept` says of the results that are kept. Without a `cancel`, on a second signal, or if the work does not end within GRACE_S, it
    is raised at once, and the thread goes on by itself.
    """

    def __init__(
        self,
        function: Callable[[Callable[[News], None]], None],
        cancel: Callable[[], None] | None = None,
        kept: Callable[[], str] = str,
    ) -> None:
        self._function, self._cancel, self._kept = function, cancel, kept
        self._queue: SimpleQueue[object] = SimpleQueue()
        self._signals: list[int] = []
        self._error: BaseException | None = None
        self._ended = False

    def __iter__(self) -> Iterator[News]:
        thread = threading.Thread(target=self._work, daemon=True)
        _running.append(thread)
        with self._handlers():
            thread.start()
            try:
                yield from self._news()
            except GeneratorExit:  # the reader of the news failed
                if self._cancel:
                    self._cancel()
                raise
            finally:
                thread.join(0 if self._signals and not self._ended else GRACE_S)
        if self._signals:
            raise self._interrupt() from self._error
        if self._error:
            raise self._error

    def _work(self) -> None:
        try:
            self._function(self._queue.put)
        except BaseException as error:
            self._error = error
        finally:
            self._queue.put(_END)

    def _news(self) -> Iterator[News]:
        deadline = float("inf")
        while True:
            try:
                item = self._queue.get(timeout=POLL_S)
            except Empty:
                if time.monotonic() > deadline:
                    raise self._interrupt() from None
                continue
            if item is _END:
                self._ended = True
                return
            if item is not self:
                yield item  # type: ignore[misc]
            elif self._cancel is None or len(self._signals) > 1:
                raise self._interrupt()
            else:
                deadline = time.monotonic() + GRACE_S
                self._cancel()

    def _interrupt(self) -> BaseException:
        return (Terminated if signal.SIGTERM in self._signals else KeyboardInterrupt)(self._kept())

    @contextmanager
    def _handlers(self) -> Iterator[None]:
        def note(number: int, _: FrameType | None) -> None:
            self._signals.append(number)
            self._queue.put(self)  # SimpleQueue may be used from a signal handler

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
