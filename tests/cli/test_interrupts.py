"""Signals during work in a thread: cancelled, read to the end, and then raised."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import click
import pytest

from relaylite.cli import group, interrupts
from relaylite.cli.interrupts import Terminated, Work
from relaylite.errors import EngineBusy

Post = Callable[[object], None]


def signal_when(ready: threading.Event, number: int = signal.SIGINT) -> None:
    threading.Thread(target=lambda: ready.wait(60) and os.kill(os.getpid(), number)).start()


def test_news_arrive_in_order_and_then_the_error() -> None:
    def work(post: Post) -> None:
        post(1)
        post(2)
        raise ValueError("broken")

    seen = []
    with pytest.raises(ValueError, match="broken"):
        seen.extend(Work(work))
    news = iter(Work(work))
    assert [next(news), next(news)] == [1, 2]
    with pytest.raises(ValueError, match="broken"):
        next(news)
    assert not interrupts.is_anything_left()


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_the_first_signal_cancels_and_the_last_news_are_read(number: int, raised: type[BaseException]) -> None:
    cancelled, ready = threading.Event(), threading.Event()

    def work(post: Post) -> None:
        ready.set()
        assert cancelled.wait(60)
        post("what was written until then")
        raise RuntimeError("cancelled")

    before = signal.getsignal(number)
    signal_when(ready, number)
    seen = []
    with pytest.raises(raised):
        for item in Work(work, cancelled.set):
            seen.append(item)
    assert seen == ["what was written until then"]
    assert signal.getsignal(number) is before and not interrupts.is_anything_left()


def test_work_that_cannot_be_cancelled_is_left_at_once() -> None:
    ready, end = threading.Event(), threading.Event()

    def work(_: Post) -> None:
        ready.set()
        end.wait(10)

    signal_when(ready)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(Work(work))
    assert time.monotonic() - started < 5 and interrupts.is_anything_left()
    end.set()


def test_a_second_signal_does_not_wait_for_the_work() -> None:
    ready, cancelled, end = threading.Event(), threading.Event(), threading.Event()

    def work(_: Post) -> None:
        ready.set()
        end.wait(10)

    signal_when(ready)
    signal_when(cancelled)
    with pytest.raises(KeyboardInterrupt):
        list(Work(work, cancelled.set))
    end.set()


def test_work_that_does_not_end_is_left_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "GRACE_S", 0.1)
    ready, end = threading.Event(), threading.Event()

    def work(_: Post) -> None:
        ready.set()
        end.wait(10)

    signal_when(ready)
    with pytest.raises(KeyboardInterrupt):
        list(Work(work, lambda: None))
    end.set()


def test_a_reader_that_fails_cancels_the_work() -> None:
    cancelled = threading.Event()

    def work(post: Post) -> None:
        post(1)
        cancelled.wait(60)

    with pytest.raises(ZeroDivisionError):
        for item in Work(work, cancelled.set):
            _ = 1 / (int(str(item)) - 1)
    assert cancelled.wait(60)


class Stubborn:
    """Cannot be closed. `n_asked` counts how often that was tried."""

    n_asked = 0

    def close(self) -> None:
        self.n_asked += 1
        raise EngineBusy("it did not stop")


@pytest.fixture
def stubborn(monkeypatch: pytest.MonkeyPatch) -> Stubborn:
    monkeypatch.setattr(interrupts, "_running", [])
    monkeypatch.setattr(interrupts, "_unclosed", [])
    return Stubborn()


def test_what_closing_raises_does_not_hide_what_led_there(stubborn: Stubborn) -> None:
    with pytest.raises(KeyboardInterrupt) as caught, interrupts.held(stubborn):
        raise KeyboardInterrupt("stopped; kept: plan")
    assert (str(caught.value), caught.value.__notes__) == ("stopped; kept: plan", ["it did not stop"])
    assert interrupts.is_anything_left()


@pytest.mark.parametrize("failed", [OSError(28, "No space left on device", "out.json"), click.ClickException("no such thing")])
def test_the_one_line_says_what_closing_raised_too(failed: Exception, stubborn: Stubborn, capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        with interrupts.held(stubborn):
            raise failed

    code, line = group._guarded(work)
    assert code == 1 and line is not None and line.endswith("; it did not stop")
    assert capsys.readouterr().err == f"relaylite: {line}\n"


def test_what_closing_raises_is_said_where_nothing_else_failed(stubborn: Stubborn) -> None:
    with pytest.raises(EngineBusy, match="it did not stop"), interrupts.held(stubborn):
        pass
    assert interrupts.is_anything_left()


def test_an_interrupt_while_closing_leaves_what_was_not_closed(stubborn: Stubborn, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stubborn, "close", interrupted)
    with pytest.raises(KeyboardInterrupt), interrupts.held(stubborn):
        pass
    assert interrupts.is_anything_left()


def test_nothing_is_closed_under_work_that_was_left_behind(stubborn: Stubborn) -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    interrupts._running.append(thread)
    with interrupts.held(stubborn):
        pass
    assert stubborn.n_asked == 0
    end.set()
    thread.join()


def test_what_waits_for_news_is_told_so() -> None:
    ticks: list[float] = []

    def work(post: Post) -> None:
        deadline = time.monotonic() + 60
        while len(ticks) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)

    assert list(Work(work, tick=lambda: ticks.append(time.monotonic()))) == [] and len(ticks) >= 3


def test_a_signal_waits_for_what_must_not_be_lost() -> None:
    kept = []
    with pytest.raises(KeyboardInterrupt), interrupts.put_off():
        signal.raise_signal(signal.SIGINT)
        kept.append("all")
    assert kept == ["all"]
