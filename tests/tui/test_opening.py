"""Opening a model from the app, and stopping that: a load ends within a second, and the app stays usable."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.app_driver import ScriptedOpener, ask, drive, drive_from_start, notices, say, screen_text, scripted_app, until
from support.fakes import FakeEngine
from textual.pilot import Pilot

from relaylite.api import Relay
from relaylite.chain import sessions
from relaylite.chain.session import Session
from relaylite.events import TextDelta
from relaylite.settings.settings import load_settings
from relaylite.tui.app import RelayApp
from relaylite.tui.engine.opener import ModelOpener, OnProgress, Progress
from relaylite.tui.engine.reports import Opening, joined
from relaylite.tui.screens.main import choosing

SOON_S = 2.0  # a second, and some for a busy machine
STEP_S = 0.01


class LoadingOpener(ScriptedOpener):
    """Loads "big" as llama.cpp does, telling how far it is again and again, until it is let go of; other models open at once."""

    def __init__(self, engine: FakeEngine) -> None:
        super().__init__(engine)
        self.is_loading, self.may_end = threading.Event(), threading.Event()
        self.ended_at = 0.0

    def open(self, path: str, on_progress: OnProgress) -> Relay:
        if path == "big":
            try:
                self.is_loading.set()
                while not self.may_end.wait(STEP_S):
                    on_progress(Progress("loading", 0.25))
            finally:
                self.is_loading.clear()
                self.ended_at = time.monotonic()
        return super().open(path, on_progress)


def loading_app() -> tuple[RelayApp, LoadingOpener]:
    opener = LoadingOpener(FakeEngine())
    return scripted_app(agents=["plan"], opener=opener), opener


async def load_big(pilot: Pilot[None], app: RelayApp, opener: LoadingOpener) -> None:
    choosing.open_model(app.main.desk, "big")
    await until(pilot, lambda: opener.is_loading.is_set() and "25 % · Esc stops" in screen_text(app))


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
def test_a_key_stops_a_load_and_the_app_says_so_and_opens_another_model(key: str) -> None:
    app, opener = loading_app()

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "before")
        await load_big(pilot, app, opener)
        pressed = time.monotonic()
        await pilot.press(key)
        await until(pilot, lambda: not app.state.is_opening)
        assert opener.ended_at - pressed < SOON_S
        await until(pilot, lambda: [notice for notice in notices(app) if "again to quit" not in notice] == ["Stopped."])
        await until(pilot, lambda: "big not opened; Ctrl+L chooses another" in screen_text(app))
        assert app.state.info is None and not app.state.is_working
        choosing.open_model(app.main.desk, "other")
        await until(pilot, lambda: app.state.info is not None)
        await ask(pilot, "after")
        assert [each.task for each in app.conversation.rounds] == ["before", "after"]

    drive(app, scenario)


def test_the_first_load_can_be_stopped_too() -> None:
    app, opener = loading_app()
    app.settings = type(app.settings)(model="big")

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, opener.is_loading.is_set)
        await pilot.press("escape")
        await until(pilot, lambda: "Ctrl+L chooses another" in screen_text(app))
        await pilot.press("ctrl+q")

    drive_from_start(app, scenario)


def test_a_message_that_waited_for_a_load_that_was_stopped_comes_back_without_a_complaint() -> None:
    app, opener = loading_app()

    async def scenario(pilot: Pilot[None]) -> None:
        await load_big(pilot, app, opener)
        await say(pilot, "hello")
        await until(pilot, lambda: "waits for the model" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: not app.state.is_working)
        assert app.main.parts.input.text == "hello"
        await until(pilot, lambda: notices(app) == ["Stopped."])

    drive(app, scenario)


@pytest.mark.parametrize(
    "what", [lambda app: app.engine.send("hello", (), None), lambda app: choosing.open_model(app.main.desk, "other")], ids=["send", "open"]
)
def test_a_stop_is_not_lost_if_the_next_job_comes_at_once(what: Callable[[RelayApp], None]) -> None:
    app, opener = loading_app()

    async def scenario(pilot: Pilot[None]) -> None:
        await load_big(pilot, app, opener)
        app.engine.cancel()
        what(app)
        await until(pilot, lambda: not opener.is_loading.is_set(), 5.0)

    drive(app, scenario)


@pytest.mark.parametrize("keys", [("ctrl+q",), ("ctrl+c", "ctrl+c")])
def test_quitting_ends_a_load_and_its_thread(keys: tuple[str, ...]) -> None:
    app, opener = loading_app()

    async def scenario(pilot: Pilot[None]) -> None:
        await load_big(pilot, app, opener)
        await pilot.press(*keys)

    drive(app, scenario)
    assert not app.engine.is_alive() and not opener.is_loading.is_set()


def test_a_real_load_is_stopped_within_a_second_and_the_model_opens_later(default_model_path: Path) -> None:
    class WatchedOpener(ModelOpener):
        """Holds the first step of the first load until Esc was pressed."""

        is_loading, is_pressed = threading.Event(), threading.Event()

        def open(self, path: str, on_progress: OnProgress) -> Relay:
            def watched(progress: Progress) -> None:
                self.is_loading.set()
                assert self.is_pressed.wait(60)
                on_progress(progress)

            return super().open(path, watched)

    settings = load_settings({"model": str(default_model_path), "ctx": 1024, "threads": 1, "max_tokens": 4})
    opener = WatchedOpener(settings)
    app = scripted_app(agents=["plan"], opener=opener, settings=settings)

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, opener.is_loading.is_set)
        await pilot.press("escape")
        opener.is_pressed.set()
        pressed = time.monotonic()
        await until(pilot, lambda: not app.state.is_opening)
        assert time.monotonic() - pressed < SOON_S
        assert app.state.info is None
        await until(pilot, lambda: notices(app) == ["Stopped."])
        choosing.open_model(app.main.desk, str(default_model_path))
        await until(pilot, lambda: app.state.info is not None)
        await ask(pilot, "Say yes.")
        assert app.conversation.last is not None and app.conversation.last.state == "done"

    drive_from_start(app, scenario)


def test_steps_of_opening_that_wait_together_are_drawn_once() -> None:
    steps = [Opening("a", Progress("loading", done / 10)) for done in range(10)]
    other, text = Opening("b", Progress("loading", 0.1)), TextDelta("plan", "x", 1)
    assert list(joined([*steps, other, text, *steps])) == [steps[-1], other, text, steps[-1]]
    assert list(joined([text, TextDelta("plan", "y", 2), TextDelta("code", "z", 1)])) == [
        TextDelta("plan", "xy", 2),
        TextDelta("code", "z", 1),
    ]


def test_a_conversation_that_the_new_model_cannot_take_over_closes_that_model() -> None:
    engine = FakeEngine()
    sessions.save("work", {"version": 1})
    app = scripted_app(engine, ["plan"], session=Session("work"))

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: notices(app))
        assert app.state.info is None and engine.is_closed

    drive_from_start(app, scenario)
