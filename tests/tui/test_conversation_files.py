"""Files that go with messages, conversations that are saved, loaded and gone on with, and what is exported."""

from __future__ import annotations

import json
import weakref
from pathlib import Path

import pytest
from support.app_driver import ask, drive, notices, open_dialog, screen_text, scripted_app, until
from support.fakes import FakeEngine
from textual.pilot import Pilot
from textual.widgets import Input

from relaylite.chain import sessions
from relaylite.chain.attachments import Attachment
from relaylite.chain.session import Session
from relaylite.tui.screens.dialog import PathDialog
from relaylite.tui.screens.main import documents


def test_a_conversation_is_saved_loaded_and_goes_on(tmp_path: Path) -> None:
    engine = FakeEngine()
    engine.enqueue("the answer")
    app = scripted_app(engine, ["plan"])
    file = tmp_path / "talk.json"

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "question")
        app.main.action_command("save")
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
        assert [block.source for block in app.main.parts.transcript.blocks] == ["question", "the answer"]
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
        documents.export_to(app.main.desk, tmp_path / "talk.md")
        documents.save_picture(app.main.desk, tmp_path / "screen.svg")
        documents.export_to(app.main.desk, tmp_path / "talk.md" / "below-a-file.md")
        await until(pilot, lambda: any("cannot write" in notice for notice in notices(app)))

    drive(app, scenario)
    document = (tmp_path / "talk.md").read_text()
    assert "> question\n> in two lines" in document and "### plan" in document and "with **text**" in document
    assert (tmp_path / "screen.svg").read_text().startswith("<svg")


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
    app = scripted_app(FakeEngine(), ["plan"], session=Session("work"))

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "yesterday")
        assert sessions.sessions()[0].first_message == "yesterday"

    drive(app, scenario)
    later = scripted_app(FakeEngine(), ["code"], session=Session("work"))

    async def go_on(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: later.conversation.rounds)
        assert [agent.name for agent in later.state.agents] == ["plan"]
        await until(pilot, lambda: [block.source for block in later.main.parts.transcript.blocks] == ["yesterday", "Understood."])
        await ask(pilot, "today")

    drive(later, go_on)


@pytest.mark.parametrize("how", ["new", "loaded"])
def test_a_conversation_that_is_replaced_is_let_go_of(how: str, tmp_path: Path) -> None:
    """So nothing of it is settled any more."""
    app = scripted_app(agents=["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        before = weakref.ref(app.engine._jobs.chain)
        if how == "new":
            await pilot.press("ctrl+n")
        else:
            app.engine.save(tmp_path / "c.json")
            app.engine.load(tmp_path / "c.json")
        await until(pilot, lambda: before() is None)

    drive(app, scenario)
