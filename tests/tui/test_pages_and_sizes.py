"""Pages, palette, themes, and screens of any size."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from support.app_driver import ask, drive, open_dialog, say, screen_text, scripted_app, until
from support.fakes import FakeEngine
from textual.pilot import Pilot

from relaylite.settings.settings import Settings, TuiSettings
from relaylite.tui.commands import COMMANDS
from relaylite.tui.screens.main.acts import ACTS
from relaylite.tui.screens.pages import HelpPage, SettingsPage


def test_help_lists_every_key_and_settings_say_where_they_come_from() -> None:
    settings = Settings(max_tokens=77, sources={"max_tokens": "--max-tokens"}, tui=TuiSettings(keys={"cancel": "ctrl+x"}))
    app = scripted_app(settings=settings)

    async def scenario(pilot: Pilot[None]) -> None:
        await open_dialog(pilot, "f1", HelpPage)
        assert isinstance(app.screen, HelpPage)
        shown = "\n".join(line.plain for line in app.screen.lines())
        assert all(command.title in shown for command in COMMANDS)
        assert "Ctrl+J" in shown and "Esc" in screen_text(app)
        assert "Ctrl+X" in next(line for line in shown.splitlines() if "Stop the agent that works" in line)
        assert shown.count("Ctrl+P") == 1, "one key, one line"
        await pilot.press("escape")
        app.main.action_command("settings")
        await until(pilot, lambda: isinstance(app.screen, SettingsPage))
        page = app.screen
        assert isinstance(page, SettingsPage)
        line = next(line.plain for line in page.lines() if line.plain.startswith("max_tokens"))
        assert "77" in line and "--max-tokens" in line

    drive(app, scenario)


def test_the_palette_offers_every_command() -> None:
    app = scripted_app()

    async def scenario(pilot: Pilot[None]) -> None:
        titles = {command.title for command in app.get_system_commands(app.main)}
        assert {command.title for command in COMMANDS} <= titles and {"Theme", "Quit"} <= titles
        await pilot.press("ctrl+p", *"measure")
        await until(pilot, lambda: "Measure a full prefill" in screen_text(app))

    drive(app, scenario)


@pytest.mark.parametrize("theme", ["relay-light", "nord", "no such theme"])
def test_themes_can_be_chosen_in_the_settings(theme: str) -> None:
    app = scripted_app(settings=Settings(tui=TuiSettings(theme=theme)))

    async def scenario(pilot: Pilot[None]) -> None:
        assert app.theme == ("relay-dark" if theme == "no such theme" else theme)
        await ask(pilot, "go")
        await pilot.press("f3")
        await pilot.pause()

    drive(app, scenario)


def test_without_colour_nothing_on_the_screen_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = scripted_app(agents=["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        await pilot.pause()
        svg = app.export_screenshot()
        colors = {tuple(int(match[i : i + 2], 16) for i in (0, 2, 4)) for match in re.findall(r'fill(?:="|: )#([0-9a-f]{6})', svg)}
        window_buttons = {(255, 95, 87), (254, 188, 46), (40, 200, 64)}
        assert all(max(color) - min(color) <= 12 for color in colors - window_buttons)

    drive(app, scenario, size=(140, 40))


def test_resizing_while_streaming_survives() -> None:
    engine = FakeEngine()
    engine.enqueue("# A *text* to wrap\n\n- with a list of things\n\n```py\ncode = 1\n```\n\n" * 6)
    engine.token_delay = 0.003
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await say(pilot, "go")
        for size in ((20, 8), (300, 100), (40, 12), (20, 8), (120, 30), (79, 23), (21, 100), (300, 9), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause(0.05)
        await until(pilot, lambda: not app.state.is_busy, 60)
        assert app.conversation.last is not None and app.conversation.last.state == "done"
        assert "code = 1" in screen_text(app)

    drive(app, scenario)


def test_at_20_by_8_one_can_still_write_and_read() -> None:
    engine = FakeEngine()
    engine.enqueue("tiny answer")
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "hi")
        assert "tiny answer" in screen_text(app)
        await pilot.press(*"typed")
        await pilot.pause()
        assert "typed" in screen_text(app)

    drive(app, scenario, size=(20, 8))


def test_figures_replace_the_transcript_on_a_narrow_screen_and_stand_beside_it_on_a_wide_one() -> None:
    app = scripted_app(agents=["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        assert not app.main.parts.inspector.display and app.main.parts.transcript.display
        await pilot.press("f2")
        await pilot.pause()
        assert app.main.parts.inspector.display and not app.main.parts.transcript.display
        await pilot.press("f2")
        await pilot.resize_terminal(140, 40)
        await pilot.pause()
        assert app.main.parts.inspector.display and app.main.parts.transcript.display

    drive(app, scenario, size=(80, 24))


def test_figures_stand_beside_the_transcript_from_96_columns_on() -> None:
    app = scripted_app(agents=["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        assert not app.main.parts.inspector.display and app.main.parts.transcript.display
        await pilot.press("f2")
        await until(pilot, lambda: app.main.parts.inspector.display)
        assert app.main.parts.transcript.display and app.main.parts.transcript.size.width > 40
        await ask(pilot, "go")
        await until(pilot, lambda: any(line.rstrip().endswith("of relayed cells") for line in screen_text(app).splitlines()))

    drive(app, scenario, size=(100, 30))


def test_importing_the_package_does_not_import_textual() -> None:
    code = "import sys, relaylite.tui; sys.exit('textual' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_command_has_an_act_and_every_act_a_command() -> None:
    assert {command.name for command in COMMANDS} == ACTS.keys()
