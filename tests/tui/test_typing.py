"""What a person types or pastes arrives as it was meant, wherever they are; keys of the settings are keys."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.app_driver import ask, drive, notices, open_dialog, say, scripted_app, until
from support.fakes import FakeEngine
from support.pty_app import PtyApp
from textual import events
from textual.pilot import Pilot

from relaylite.errors import UsageError
from relaylite.settings.settings import Settings, TuiSettings
from relaylite.tui.commands import check_keys
from relaylite.tui.screens.agents_dialog import AgentsDialog
from relaylite.tui.screens.dialog import TextDialog
from relaylite.tui.text.corrections import corrected
from relaylite.tui.widgets.fields import TextField

NOT_PRINTABLE = "\u3000\u00a0\u202f\u00ad\u200c\u200d"


def test_line_ends_of_a_paste_are_kept_however_the_terminal_sends_them() -> None:
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        field = app.main.parts.input
        app.post_message(events.Paste("def f(x):\r    return x\r\nprint(f(1))\n"))
        await until(pilot, lambda: field.text == "def f(x):\n    return x\nprint(f(1))\n")
        field.clear()
        await open_dialog(pilot, "f4", AgentsDialog)
        instructions = app.screen.query_one("#instructions", TextField)
        instructions.focus()
        instructions.clear()
        app.post_message(events.Paste("One.\rTwo."))
        await until(pilot, lambda: instructions.text == "One.\nTwo.")

    drive(app, scenario)


def test_what_python_does_not_call_printable_can_be_typed() -> None:
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        for character in f"a{NOT_PRINTABLE}b":
            app.post_message(events.Key("x", character))
        await until(pilot, lambda: app.main.parts.input.text == f"a{NOT_PRINTABLE}b")
        await pilot.press("ctrl+f")
        for character in f"a{NOT_PRINTABLE}b":
            app.post_message(events.Key("x", character))
        await until(pilot, lambda: app.main.query_one("#search").value == f"a{NOT_PRINTABLE}b")  # type: ignore[attr-defined]

    drive(app, scenario)


def test_a_correction_changes_only_the_lines_that_were_changed() -> None:
    text = "first\r\nfeed\x0cform\nseparated\u2028line\nlast\x1b[2J"
    shown = "first\nfeed\nform\nseparated\nline\nlast␛[2J"
    assert corrected(text, shown) == text
    assert corrected(text, shown.replace("form", "foam")) == text.replace("form", "foam")
    assert corrected(text, shown + "\nmore") == "first\r\nfeed\x0cform\nseparated\u2028line\nlast␛[2J\nmore"
    assert corrected("", "new") == "new" and corrected(text, "") == ""


def test_a_correction_with_nothing_typed_is_none() -> None:
    engine = FakeEngine()
    engine.enqueue("one\u2028two\x0cthree\r\nfour")
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        await open_dialog(pilot, "f9", TextDialog)
        await pilot.press("ctrl+d")
        await until(pilot, lambda: app.screen is app.main)
        await pilot.pause(0.1)
        last = app.conversation.last
        assert last is not None and not last.was_edited and last.text == "one\u2028two\x0cthree\r\nfour"

    drive(app, scenario)


def test_tab_goes_to_the_newest_block_and_typing_there_to_the_input() -> None:
    app = scripted_app(FakeEngine(), ["plan", "code"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "first")
        await ask(pilot, "second")
        await pilot.press("tab")
        assert app.focused is app.main.parts.transcript.blocks[-1]
        await pilot.press("H", "i", "exclamation_mark")
        await until(pilot, lambda: app.main.parts.input.text == "Hi!")
        assert app.focused is app.main.parts.input
        await pilot.press("tab")
        app.post_message(events.Paste(" pasted"))
        await until(pilot, lambda: app.main.parts.input.text == "Hi! pasted")

    drive(app, scenario)


def test_esc_in_the_search_closes_it_and_leaves_the_agents_at_work() -> None:
    engine = FakeEngine()
    engine.token_gate.clear()
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await say(pilot, "go")
        await until(pilot, engine.in_generate.is_set)
        await pilot.press("ctrl+f", "escape")
        assert not app.main.parts.search.is_open and app.state.is_busy
        await pilot.press("escape")
        await until(pilot, lambda: not app.state.is_busy, 5)

    drive(app, scenario)


def test_a_key_of_the_settings_works_in_the_input_too() -> None:
    engine = FakeEngine()
    engine.token_gate.clear()
    app = scripted_app(engine, ["plan"], settings=Settings(tui=TuiSettings(keys={"cancel": "ctrl+x"})))

    async def scenario(pilot: Pilot[None]) -> None:
        await say(pilot, "go")
        await until(pilot, engine.in_generate.is_set)
        assert app.focused is app.main.parts.input
        await pilot.press("ctrl+x")
        await until(pilot, lambda: not app.state.is_busy, 5)

    drive(app, scenario)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"cancle": "ctrl+x"}, "'cancle'"),
        ({"cancel": "ctrl+nothing"}, "is no key"),
        ({"cancel": "x"}, "is no key"),
        ({"cancel": 7}, "is no key"),
        ({"cancel": "f1"}, "gives f1 to"),
    ],
)
def test_keys_that_cannot_work_are_refused(keys: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=r"tui\.keys") as refusal:
        check_keys(keys)
    assert said in str(refusal.value) and "\n" not in str(refusal.value)


def test_keys_that_can_work_are_taken() -> None:
    check_keys({"cancel": "ctrl+x", "help": "f11", "agents": "alt+a", "search": "ctrl+f,ctrl+shift+f"})


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Path]:
    """An editor that writes down what it was given and that it has a terminal, and adds a line."""
    program = tmp_path / "editor"
    program.write_text(f'#!/bin/sh\ncp "$1" {tmp_path}/given\ntest -t 0 && test -t 1 && printf "\\nfrom the editor" >> "$1"\n')
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    yield program


def test_the_message_can_be_written_in_ones_own_editor(editor: Path) -> None:
    app = PtyApp("chat", "--agents", "plan", environment={"EDITOR": str(editor), "VISUAL": ""})
    try:
        app.wait_for("fake")
        app.send("typed")
        app.wait_for("typed")
        app.send(b"\x07")  # Ctrl+G
        place = app.wait_for("from the editor")
        app.send("\r")
        app.wait_for("Understood.", place - 2000)
        app.send(b"\x11")
        assert app.wait_end() == 0
        assert (editor.parent / "given").read_text() == "typed"
    finally:
        app.close()


def test_without_an_editor_the_text_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "/no/such/editor")
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        app.main.parts.input.insert("typed")
        await pilot.press("ctrl+g")
        await until(pilot, lambda: notices(app))
        assert "/no/such/editor" in notices(app)[-1] and app.main.parts.input.text == "typed"

    drive(app, scenario)
    assert os.environ["VISUAL"]
