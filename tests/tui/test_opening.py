"""Opening a model from the app, and stopping that: a load ends within a second, and the app stays usable."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from support.app_driver import ScriptedOpener, ask, drive, drive_from_start, notices, say, screen_text, scripted_app, until
from support.fakes import FakeEngine
from textual.pilot import Pilot

from relaylite.api import Relay
from relaylite.tui.app import RelayApp
from relaylite.tui.engine.opener import OnProgress, Progress
from relaylite.tui.screens.main import choosing

WITHIN_S = 1.0
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
        assert opener.ended_at - pressed < WITHIN_S
        assert [notice for notice in notices(app) if "again to quit" not in notice] == ["Stopped."]
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
        assert app.main.parts.input.text == "hello" and notices(app) == ["Stopped."]

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


def test_a_conversation_that_the_new_model_cannot_take_over_closes_that_model() -> None:
    engine = FakeEngine()
    app = scripted_app(engine, ["plan"], saved={"version": 1})

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: notices(app))
        assert app.state.info is None and engine.is_closed

    drive_from_start(app, scenario)
