"""Changing agents, policy and model between turns."""

from __future__ import annotations

import pytest
from support.app_driver import KNOWN, ScriptedOpener, ask, drive, notices, open_dialog, screen_text, scripted_app, until
from support.fakes import FakeEngine
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Select, TextArea

from relaylite.errors import ModelError
from relaylite.tui.app import RelayApp
from relaylite.tui.screens.agents_dialog import AgentsDialog
from relaylite.tui.screens.dialog import ChoiceDialog
from relaylite.tui.screens.main import choosing
from relaylite.tui.screens.model_dialog import ModelDialog


def names(app: RelayApp) -> list[str]:
    return [agent.name for agent in app.state.agents]


def test_agents_are_added_moved_removed_and_paused_after() -> None:
    app = scripted_app(FakeEngine(), ["plan", "code"])

    async def scenario(pilot: Pilot[None]) -> None:
        await open_dialog(pilot, "f4", AgentsDialog)
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, ChoiceDialog))
        options = app.screen.query_one(OptionList)
        options.highlighted = list(KNOWN).index("review")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, AgentsDialog))
        await pilot.press("d", "space", "ctrl+d")
        await until(pilot, lambda: names(app) == ["plan", "code", "review"])
        assert app.state.pauses == {2}
        await open_dialog(pilot, "f4", AgentsDialog)
        await pilot.press("delete", "ctrl+d")
        await until(pilot, lambda: names(app) == ["code", "review"])
        await ask(pilot, "go")
        assert [turn.agent for turn in app.conversation.turns()] == ["code", "review"]

    drive(app, scenario)


def test_edited_instructions_reach_the_next_prompt() -> None:
    engine = FakeEngine()
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await open_dialog(pilot, "f4", AgentsDialog)
        app.screen.query_one("#instructions", TextArea).load_text("Only say yes.")
        app.screen.query_one("#reads", Select).value = "task"
        await pilot.press("ctrl+d")
        await until(pilot, lambda: app.screen is app.main)
        await ask(pilot, "go")
        assert engine.tokenizer.text(engine.plans[-1].tokens).count("Only say yes.") == 1
        assert app.state.agents[0].reads == "task"

    drive(app, scenario)


def test_an_agent_without_instructions_is_refused_in_the_dialog() -> None:
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await open_dialog(pilot, "f4", AgentsDialog)
        app.screen.query_one("#instructions", TextArea).load_text("  ")
        await pilot.press("ctrl+d")
        await pilot.pause()
        assert isinstance(app.screen, AgentsDialog)
        assert "has no instructions" in screen_text(app)
        await pilot.press("escape")
        assert app.state.agents[0].instructions == KNOWN["plan"].instructions

    drive(app, scenario)


def test_the_policy_changes_between_turns() -> None:
    engine = FakeEngine()
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "one")
        await open_dialog(pilot, "f5", ChoiceDialog)
        await pilot.press("home", "enter")
        await until(pilot, lambda: app.state.policy.name == "full")
        await ask(pilot, "two")
        assert [plan.policy.name for plan in engine.plans] == ["naive", "full"]
        assert "policy full" in screen_text(app)

    drive(app, scenario)


def test_a_model_that_cannot_relay_says_why() -> None:
    app = scripted_app(FakeEngine(relay_refusal="sliding windows are not supported"), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "(prefix only)" in screen_text(app))
        await ask(pilot, "one")
        await ask(pilot, "two")
        assert len([notice for notice in notices(app) if "sliding windows" in notice]) == 1, "once, not with every message"

    drive(app, scenario)


def test_the_model_chooser_lists_the_catalogue_and_opens_what_is_named() -> None:
    opener = ScriptedOpener(FakeEngine())
    app = scripted_app(agents=["plan"], opener=opener)

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "before")
        await open_dialog(pilot, "ctrl+l", ModelDialog)
        await until(pilot, lambda: "will be fetched" in screen_text(app))
        assert "smollm2-135m" in screen_text(app)
        app.screen.query_one(Input).value = "other.gguf"
        app.screen.query_one(Input).focus()
        await pilot.press("enter")
        await until(pilot, lambda: opener.asked == ["default", "other.gguf"] and app.state.info is not None)
        await ask(pilot, "after")
        assert [each.task for each in app.conversation.rounds] == ["before", "after"], "the conversation goes on with the new model"

    drive(app, scenario)


def test_a_download_shows_its_progress_and_can_be_stopped() -> None:
    import threading

    gate, started = threading.Event(), threading.Event()

    class SlowOpener(ScriptedOpener):
        def locate(self, model: str, on_progress):  # type: ignore[no-untyped-def]
            if model == "big":
                started.set()
                while not gate.wait(0.01):
                    on_progress(Progress("fetching big.gguf", 0.25))
            return super().locate(model, on_progress)

    from relaylite.tui.engine.opener import Progress

    app = scripted_app(agents=["plan"], opener=SlowOpener(FakeEngine()))

    async def scenario(pilot: Pilot[None]) -> None:
        choosing.open_model(app.main.desk, "big")
        await until(pilot, started.is_set)
        await until(pilot, lambda: "25 %" in screen_text(app) and "fetching big.gguf" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.state.info is not None and any("Stopped" in notice for notice in notices(app)))
        await ask(pilot, "the old model still answers")
        gate.set()

    drive(app, scenario)


def test_a_model_that_does_not_open_is_a_notice_and_keeps_the_old_one() -> None:
    opener = ScriptedOpener(FakeEngine())
    app = scripted_app(agents=["plan"], opener=opener)

    async def scenario(pilot: Pilot[None]) -> None:
        opener.locate_error = ModelError("nowhere.gguf: no such file; `relaylite models list` shows others")
        choosing.open_model(app.main.desk, "nowhere.gguf")
        await until(pilot, lambda: any("no such file" in notice for notice in notices(app)))
        await until(pilot, lambda: app.state.info is not None)
        await ask(pilot, "still here")

    drive(app, scenario)


@pytest.mark.parametrize(("key", "kind"), [("f5", ChoiceDialog), ("ctrl+l", ModelDialog)])
def test_enter_twice_in_a_dialog_is_one_answer(key: str, kind: type) -> None:
    """The second key may come before the dialog is gone: it used to take the main screen away, and the app ended."""
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await open_dialog(pilot, key, kind)
        options = app.screen.query_one(OptionList)
        options.action_select()
        options.action_select()
        await until(pilot, lambda: app.screen is app.main)
        await pilot.pause(0.2)
        assert app.screen is app.main and app.is_running

    drive(app, scenario)
