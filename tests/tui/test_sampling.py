"""Temperature, max tokens and seed: changed in the app, for all agents and for one."""

from __future__ import annotations

from support.app_driver import ask, drive, open_dialog, screen_text, scripted_app, until
from support.fakes import FakeEngine
from textual.pilot import Pilot
from textual.widgets import Input

from relaylite.chain.agents import Agent
from relaylite.chain.session import Session
from relaylite.settings.settings import Settings
from relaylite.tui.app import RelayApp
from relaylite.tui.screens.agents_dialog import AgentsDialog
from relaylite.tui.screens.pages import SettingsPage
from relaylite.tui.screens.sampling_dialog import SamplingDialog

AGENTS = [Agent("plan", "Plan.", sampling={"temperature": 0.9, "top_k": 7}), Agent("code", "Code.")]


async def choose(pilot: Pilot[None], **values: str) -> None:
    """Change sampling values of all agents."""
    app = pilot.app
    assert isinstance(app, RelayApp)
    app.main.action_command("sampling")
    await until(pilot, lambda: isinstance(app.screen, SamplingDialog))
    await pilot.pause()
    for name, value in values.items():
        app.screen.query_one(f"#{name.replace('_', '-')}", Input).value = value
    await pilot.press("ctrl+d")


def test_values_for_all_agents_hold_for_the_next_turn_and_stand_in_the_settings() -> None:
    engine = FakeEngine()
    app = scripted_app(engine, AGENTS)

    async def scenario(pilot: Pilot[None]) -> None:
        await choose(pilot, temperature="0.4", max_tokens="9")
        await until(pilot, lambda: app.screen is app.main)
        await ask(pilot, "go")
        assert [(each.temperature, each.max_tokens, each.seed) for each in engine.samplings] == [(0.4, 9, 0), (0.4, 9, 0)]
        assert engine.samplings[0].top_k == 7, "a value that was not changed stays the agent's own"
        app.main.action_command("settings")
        await until(pilot, lambda: isinstance(app.screen, SettingsPage))
        await pilot.pause()
        lines = [line.plain for line in app.screen.lines()] if isinstance(app.screen, SettingsPage) else []
        assert any(line.split()[:3] == ["temperature", "0.4", "in"] for line in lines)
        assert any(line.split()[:3] == ["max_tokens", "9", "in"] for line in lines)
        assert "Its own values: plan: top_k 7" in lines

    drive(app, scenario)


def test_an_emptied_field_goes_back_to_the_default() -> None:
    engine = FakeEngine()
    app = scripted_app(engine, ["code"])

    async def scenario(pilot: Pilot[None]) -> None:
        await choose(pilot, temperature="0.4", seed="5")
        await until(pilot, lambda: app.screen is app.main)
        await choose(pilot, temperature="")
        await until(pilot, lambda: app.screen is app.main)
        await ask(pilot, "go")
        assert (engine.samplings[-1].temperature, engine.samplings[-1].seed) == (0.0, 5)

    drive(app, scenario)


def test_what_differs_among_the_agents_is_said_and_left_alone() -> None:
    app = scripted_app(FakeEngine(), AGENTS)

    async def scenario(pilot: Pilot[None]) -> None:
        app.main.action_command("sampling")
        await until(pilot, lambda: isinstance(app.screen, SamplingDialog))
        await pilot.pause()
        assert "They differ: temperature: plan 0.9, code unset" in screen_text(app)
        app.screen.query_one("#seed", Input).value = "3"
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.main)
        assert app.state.agents[0].sampling == {"temperature": 0.9, "top_k": 7}
        assert app.state.sampling == {"seed": 3}

    drive(app, scenario, size=(80, 24))


def test_a_value_that_cannot_be_is_refused_in_the_dialog() -> None:
    app = scripted_app(FakeEngine(), ["code"])

    async def scenario(pilot: Pilot[None]) -> None:
        for value, reason in (("hot", "must be a number"), ("11", "from 0 to 10")):
            await choose(pilot, temperature=value)
            await until(pilot, lambda reason=reason: reason in screen_text(app))  # type: ignore[misc]
            await pilot.press("escape")
            await until(pilot, lambda: app.screen is app.main)
        assert app.state.sampling == {}

    drive(app, scenario)


def test_one_agent_gets_values_of_its_own() -> None:
    engine = FakeEngine()
    app = scripted_app(engine, ["plan", "code"])

    async def scenario(pilot: Pilot[None]) -> None:
        await choose(pilot, temperature="0.5")
        await until(pilot, lambda: app.screen is app.main)
        await open_dialog(pilot, "f4", AgentsDialog)
        field = app.screen.query_one("#temperature", Input)
        assert (field.value, field.placeholder) == ("", "0.5")
        assert app.screen.query_one("#max-tokens", Input).placeholder == "512"
        field.value = "0.1"
        await pilot.press("ctrl+d")
        await until(pilot, lambda: app.screen is app.main)
        await ask(pilot, "go")
        assert [each.temperature for each in engine.samplings] == [0.1, 0.5]

    drive(app, scenario)


def test_the_values_are_kept_with_the_conversation() -> None:
    async def begin(pilot: Pilot[None]) -> None:
        await choose(pilot, temperature="0.3")
        await until(pilot, lambda: pilot.app.screen is app.main)
        await ask(pilot, "go")

    app = scripted_app(FakeEngine(), ["code"], session=Session("kept"))
    drive(app, begin)

    engine = FakeEngine()
    later = scripted_app(engine, ["code"], session=Session("kept"), settings=Settings(max_tokens=20))

    async def go_on(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: later.state.sampling == {"temperature": 0.3})
        await ask(pilot, "more")
        assert engine.samplings[-1].temperature == 0.3
        later.main.action_command("new")
        await until(pilot, lambda: not later.conversation.rounds)
        await ask(pilot, "another")
        assert engine.samplings[-1].temperature == 0.3, "a new conversation goes on with what was chosen"

    drive(later, go_on)
