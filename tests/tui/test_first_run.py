"""The first minutes: something to see at once, tasks to try, what the demo model is, and a bell at the end of a long chain."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from support.app_driver import ScriptedOpener, ask, drive, drive_from_start, open_dialog, screen_text, scripted_app, until
from support.fakes import FakeEngine
from textual.pilot import Pilot

from relaylite.settings.settings import Settings, TuiSettings
from relaylite.tui.app import RelayApp
from relaylite.tui.engine.opener import OnProgress
from relaylite.tui.screens.dialog import ChoiceDialog
from relaylite.tui.screens.main import run_view
from relaylite.tui.widgets.transcript.welcome import TASKS, Sample


class SilentOpener(ScriptedOpener):
    """Takes its time before it reports anything."""

    def __init__(self) -> None:
        super().__init__(FakeEngine())
        self.goes_on = threading.Event()

    def locate(self, model: str, on_progress: OnProgress) -> str:
        assert self.goes_on.wait(60)
        return super().locate(model, on_progress)


def test_opening_is_said_before_the_model_reports_anything() -> None:
    opener = SilentOpener()
    app = scripted_app(opener=opener)

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.pause()
        assert "looking for the model" in screen_text(app)
        opener.goes_on.set()
        await until(pilot, lambda: app.state.info is not None)
        await pilot.pause()
        assert "looking for the model" not in screen_text(app)

    drive_from_start(app, scenario)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_a_sample_task_is_taken_into_the_input_by_key_and_by_click(size: tuple[int, int]) -> None:
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        assert all(task in screen_text(app) for task in TASKS), screen_text(app)
        await pilot.press("tab", "down", "enter")
        await until(pilot, lambda: app.main.parts.input.text == TASKS[1])
        assert app.focused is app.main.parts.input
        await pilot.click(list(app.main.query(Sample))[2])
        await until(pilot, lambda: app.main.parts.input.text == TASKS[2])
        await pilot.press("enter")
        await until(pilot, lambda: app.conversation.rounds and not app.state.is_busy)
        assert (app.conversation.rounds[0].task, len(app.main.query(Sample))) == (TASKS[2], 0)
        app.main.action_command("new")
        await until(pilot, lambda: len(app.main.query(Sample)) == 3)

    drive(app, scenario, size)


@pytest.mark.parametrize(("model", "is_said"), [("SmolLM2-135M-Instruct.Q4_1.gguf", True), ("qwen.gguf", False)])
def test_the_demo_model_says_what_it_is(model: str, is_said: bool) -> None:
    engine = FakeEngine()
    engine.info = replace(engine.info, path=f"/m/{model}")
    app = scripted_app(engine)

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.pause(0.1)
        assert ("This is the demo model; Ctrl+L for better ones." in screen_text(app)) == is_said

    drive(app, scenario, size=(80, 24))


@pytest.mark.parametrize(("after_s", "wanted", "rings"), [(0.0, True, True), (0.0, False, False), (600.0, True, False)])
def test_a_bell_ends_a_long_chain(monkeypatch: pytest.MonkeyPatch, after_s: float, wanted: bool, rings: bool) -> None:
    rung: list[bool] = []
    monkeypatch.setattr(run_view, "BELL_AFTER_S", after_s)
    monkeypatch.setattr(RelayApp, "bell", lambda _: rung.append(True))
    app = scripted_app(FakeEngine(), ["plan"], settings=Settings(tui=TuiSettings(bell=wanted)))

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        assert rung == [True] * rings

    drive(app, scenario)


def test_the_policy_dialog_has_the_fidelities() -> None:
    app = scripted_app(FakeEngine())

    async def scenario(pilot: Pilot[None]) -> None:
        await open_dialog(pilot, "f5", ChoiceDialog)
        assert all(name in screen_text(app) for name in ("relay:fast", "relay:careful"))

    drive(app, scenario, size=(80, 24))
