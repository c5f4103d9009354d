"""`@` in the input offers files below the working folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.app_driver import drive, screen_text, scripted_app, until
from support.fakes import FakeEngine
from textual.pilot import Pilot

from relaylite.tui.text import mentions
from relaylite.tui.widgets.file_picker import FilePicker


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("notes.md", "my notes.md", "sub/deep.py", ".git/notes.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text", encoding="utf-8")
    (tmp_path / "loop").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)


def test_files_are_bounded_and_neither_hidden_nor_seen_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mentions.files_below(tmp_path) == ["my notes.md", "notes.md", "sub/deep.py"]
    monkeypatch.setattr(mentions, "FILES_LIMIT", 2)
    assert len(mentions.files_below(tmp_path)) == 2
    assert mentions.files_below(tmp_path / "missing") == []


def test_only_a_mention_that_is_being_typed_counts() -> None:
    assert mentions.begun("see @no") == (4, "no")
    assert mentions.begun('@"my n') == (0, "my n")
    assert mentions.begun("me@home") is None
    assert mentions.begun("@done and") is None


def test_tab_and_enter_complete_and_esc_leaves_it() -> None:
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        picker, field = app.main.query_one(FilePicker), app.main.parts.input
        await pilot.press(*"see @not")
        await until(pilot, lambda: picker.is_open)
        await pilot.pause()
        assert "my notes.md" in screen_text(app)
        await pilot.press("tab")
        assert (field.text, app.focused) == ("see @notes.md ", field)
        await pilot.press("@", "n", "o", "t")
        await until(pilot, lambda: picker.is_open)
        await pilot.press("down", "enter")
        assert field.text == 'see @notes.md @"my notes.md" '
        await pilot.press("@", "d")
        await until(pilot, lambda: picker.is_open)
        await pilot.press("escape", "e")
        await pilot.pause()
        assert (field.text[-3:], picker.is_open) == ("@de", False)
        assert not app.conversation.rounds

    drive(app, scenario, size=(80, 24))


def test_a_name_that_is_whole_is_sent_by_enter() -> None:
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press(*"@sub/deep.py")
        await until(pilot, lambda: not app.main.query_one(FilePicker).is_open)
        await pilot.press("enter")
        await until(pilot, lambda: app.conversation.rounds and not app.state.is_busy)
        assert app.conversation.rounds[0].files == ("sub/deep.py",)

    drive(app, scenario)
