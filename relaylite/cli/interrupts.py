"""`Work`: runs a function in a thread and gives its news to the main thread, so that Ctrl-C, SIGTERM and SIGHUP act at once.

Python runs signal handlers in the main thread, between two of its own instructions. A main thread inside llama.cpp would not notice a
signal for seconds. That nobody reads our output any more counts as a signal too: work may write nothing for minutes.
"""

from __future__ import annotations

import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Generic, Protocol, TypeVar

GRACE_S = 3.0  # how long cancelled work may take to end before the process leaves without it
NO_READER = 13  # the number of SIGPIPE, which Python ignores, and some systems do not have
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
    """SIGTERM or SIGHUP came, which is `number`; `str()` says what was kept, if the command knows."""

    def __init__(self, says: str = "", number: int = signal.SIGTERM) -> None:
        super().__init__(says)
        self.number = number


class ReaderGone(BaseException):
    """Nobody reads stdout any more, and the command has ended."""


def ending_signals() -> tuple[int, ...]:
    """SIGTERM and SIGHUP; the latter not under nohup, which has it ignored, nor where the system has none."""
    hang_up = getattr(signal, "SIGHUP", None)
    return (signal.SIGTERM,) if hang_up is None or signal.getsignal(hang_up) is signal.SIG_IGN else (signal.SIGTERM, hang_up)


def is_reader_gone() -> bool:
    """Whether what read our stdout, a pipe or a terminal, has gone away."""
    if not hasattr(select, "poll"):
        return False
    with suppress(OSError, ValueError, AttributeError):  # stdout is no file
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    return False


def lost_worker() -> str:
    """What relaylite.machine.workers said of a worker that went away, if SIGTERM came because of that; else ""."""
    rpc = sys.modules.get("relaylite.machine.workers")  # not imported for this: it loads llama.cpp
    return str(rpc.lost) if rpc else ""


def is_anything_left() -> bool:
    """Whether some work was left behind that did not end, or something that could not be closed."""
    return bool(_unclosed) or any(thread.is_alive() for thread in _running)


@contextmanager
def put_off() -> Iterator[None]:
    """A signal that ends the command waits until the block is over: something is written in it that must not be lost."""
    came: list[tuple[int, FrameType | None]] = []
    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, *ending_signals()) if is_main else ()
    before = {number: signal.signal(number, lambda *signalled: came.append(signalled)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number, frame in came[:1]:
            handler = before[number]
            if callable(handler):
                handler(number, frame)


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
    what `kept` says of the results that are kept; ReaderGone if nobody reads stdout any more. Without a `cancel`, on a second
    signal, or if the work does not end within GRACE_S, it is raised at once, and the thread goes on by itself. `tick` is called some
    times a second, also without news.
    """

    def __init__(
        self,
        function: Callable[[Callable[[News], None]], None],
        cancel: Callable[[], None] | None = None,
        kept: Callable[[], str] = str,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._function, self._cancel, self._kept, self._tick = function, cancel, kept, tick
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
        deadline, next_look = float("inf"), 0.0
        while True:
            if time.monotonic() >= next_look:
                self._look_around()
                next_look = time.monotonic() + POLL_S
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

    def _look_around(self) -> None:
        self._tick()
        if not self._signals and is_reader_gone():
            self._note(NO_READER)

    def _note(self, number: int, _: FrameType | None = None) -> None:
        self._signals.append(number)
        self._queue.put(self)  # SimpleQueue may be used from a signal handler

    def _interrupt(self) -> BaseException:
        for number in self._signals:
            if number == NO_READER:
                return ReaderGone()
            if number != signal.SIGINT:
                return Terminated(self._kept(), number)
        return KeyboardInterrupt(self._kept())

    @contextmanager
    def _handlers(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, *ending_signals())}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
