"""Changing agents, policy and model between turns; files; themes, pages, palette; sizes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from app_driver import KNOWN, ScriptedOpener, ask, drive, notices, say, screen_text, scripted_app, until
from fakes import FakeEngine
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Select, TextArea

from relaylite.attachments import Attachment
from relaylite.config import Settings, TuiSettings
from relaylite.errors import ModelError
from relaylite.tui.app import RelayApp
from relaylite.tui.commands import COMMANDS
from relaylite.tui.screens.agents_dialog import AgentsDialog
from relaylite.tui.screens.dialog import ChoiceDialog, PathDialog
from relaylite.tui.screens.model_dialog import ModelDialog
from relaylite.tui.screens.pages import HelpPage, SettingsPage


async def open_dialog(pilot: Pilot[None], key: str, kind: type) -> None:
    await pilot.press(key)
    await until(pilot, lambda: isinstance(pilot.app.screen, kind))
    await pilot.pause()


def names(app: RelayApp) -> list[str]:
    return [agent.name for agent in app.main.agents]


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
        assert app.main.pauses == {2}
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
        assert app.main.agents[0].reads == "task"

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
        assert app.main.agents[0].instructions == KNOWN["plan"].instructions

    drive(app, scenario)


def test_the_policy_changes_between_turns() -> None:
    engine = FakeEngine()
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "one")
        await open_dialog(pilot, "f5", ChoiceDialog)
        await pilot.press("home", "enter")
        await until(pilot, lambda: app.main.policy.name == "full")
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
        await until(pilot, lambda: opener.asked == ["default", "other.gguf"] and app.main.info is not None)
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

    from relaylite.tui.backend import Progress

    app = scripted_app(agents=["plan"], opener=SlowOpener(FakeEngine()))

    async def scenario(pilot: Pilot[None]) -> None:
        app.main._take_model("big")
        await until(pilot, started.is_set)
        await until(pilot, lambda: "25 %" in screen_text(app) and "fetching big.gguf" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.main.info is not None)
        assert any("Stopped" in notice for notice in notices(app))
        await ask(pilot, "the old model still answers")
        gate.set()

    drive(app, scenario)


def test_a_model_that_does_not_open_is_a_notice_and_keeps_the_old_one() -> None:
    opener = ScriptedOpener(FakeEngine())
    app = scripted_app(agents=["plan"], opener=opener)

    async def scenario(pilot: Pilot[None]) -> None:
        opener.locate_error = ModelError("nowhere.gguf: no such file; `relaylite models list` shows others")
        app.main._take_model("nowhere.gguf")
        await until(pilot, lambda: any("no such file" in notice for notice in notices(app)))
        await until(pilot, lambda: app.main.info is not None)
        await ask(pilot, "still here")

    drive(app, scenario)


def test_a_conversation_is_saved_loaded_and_goes_on(tmp_path: Path) -> None:
    engine = FakeEngine()
    engine.enqueue("the answer")
    app = scripted_app(engine, ["plan"])
    file = tmp_path / "talk.json"

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "question")
        app.main.action_save()
        await until(pilot, lambda: app.screen.query(Input))
        app.screen.query_one(Input).value = str(file)
        await pilot.press("enter")
        await until(pilot, file.exists)
        await pilot.press("ctrl+n")
        await until(pilot, lambda: not app.conversation.rounds)
        await until(pilot, lambda: "Type a message below" in screen_text(app))
        await open_dialog(pilot, "ctrl+o", PathDialog)
        app.screen.query_one(Input).value = str(file)
        await pilot.press("enter")
        await until(pilot, lambda: app.conversation.rounds)
        await pilot.pause()
        assert [block.source for block in app.main.transcript.blocks] == ["question", "the answer"]
        await ask(pilot, "more")

    drive(app, scenario)
    assert "version" in json.loads(file.read_text())


def test_a_file_that_is_no_conversation_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "kept")
        for n, content in enumerate(["", "{", "[]", '{"version": 99}', '{"version": 1}', "\x00\x01"]):
            file.write_text(content)
            app.engine.load(file)
            await until(pilot, lambda n=n: len(notices(app)) > n)  # type: ignore[misc]
        assert not [notice for notice in notices(app) if "\n" in notice or "internal error" in notice]
        assert [each.task for each in app.conversation.rounds] == ["kept"]

    drive(app, scenario)


def test_markdown_and_screenshot_are_written(tmp_path: Path) -> None:
    engine = FakeEngine()
    engine.enqueue("# Title\n\nwith **text**")
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "question\nin two lines")
        app.main._export(tmp_path / "talk.md")
        app.main._save_picture(tmp_path / "screen.svg")
        app.main._export(tmp_path / "talk.md" / "below-a-file.md")
        await until(pilot, lambda: any("cannot write" in notice for notice in notices(app)))

    drive(app, scenario)
    document = (tmp_path / "talk.md").read_text()
    assert "> question\n> in two lines" in document and "### plan" in document and "with **text**" in document
    assert (tmp_path / "screen.svg").read_text().startswith("<svg")


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
        app.main.action_settings()
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
        await until(pilot, lambda: not app.main.is_busy, 60)
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
        assert not app.main.inspector.display and app.main.transcript.display
        await pilot.press("f2")
        await pilot.pause()
        assert app.main.inspector.display and not app.main.transcript.display
        await pilot.press("f2")
        await pilot.resize_terminal(140, 40)
        await pilot.pause()
        assert app.main.inspector.display and app.main.transcript.display

    drive(app, scenario, size=(80, 24))


def test_figures_stand_beside_the_transcript_from_96_columns_on() -> None:
    app = scripted_app(agents=["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        assert not app.main.inspector.display and app.main.transcript.display
        await pilot.press("f2")
        await until(pilot, lambda: app.main.inspector.display)
        assert app.main.transcript.display and app.main.transcript.size.width > 40
        await ask(pilot, "go")
        await until(pilot, lambda: any(line.rstrip().endswith("of relayed cells") for line in screen_text(app).splitlines()))

    drive(app, scenario, size=(100, 30))


def test_importing_the_package_does_not_import_textual() -> None:
    code = "import sys; sys.path[:0] = {path!r}; import conftest, relaylite.tui; sys.exit('textual' in sys.modules)"
    path = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    assert subprocess.run([sys.executable, "-c", code.format(path=path)], check=False).returncode == 0


def test_files_go_with_the_message_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("remember the milk")
    engine = FakeEngine()
    app = scripted_app(engine, ["plan"], files=[Attachment("first.md", "only once")])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, f"read @{tmp_path}/notes.md please")
        prompt = engine.tokenizer.text(engine.plans[-1].tokens)
        assert "remember the milk" in prompt and "only once" in prompt
        assert app.conversation.rounds[0].files == ("first.md", f"{tmp_path}/notes.md")
        await ask(pilot, "no file")
        assert app.conversation.rounds[1].files == ()

    drive(app, scenario)


def test_a_session_is_kept_after_each_answer_and_gone_on_with() -> None:
    kept: list[dict[str, Any]] = []
    app = scripted_app(FakeEngine(), ["plan"], keep=kept.append)

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "yesterday")
        await until(pilot, lambda: kept)

    drive(app, scenario)
    later = scripted_app(FakeEngine(), ["code"], saved=kept[-1])

    async def go_on(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: later.conversation.rounds)
        assert [agent.name for agent in later.main.agents] == ["plan"]
        await until(pilot, lambda: [block.source for block in later.main.transcript.blocks] == ["yesterday", "Understood."])
        await ask(pilot, "today")

    drive(later, go_on)
