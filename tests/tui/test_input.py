"""The input line: sending, new lines, history, huge pastes, keys."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from support.app_driver import ask, drive, scripted_app, until
from support.fakes import FakeEngine
from textual import events
from textual._xterm_parser import XTermParser
from textual.binding import Binding
from textual.pilot import Pilot
from textual.widgets import TextArea

from relaylite.tui.commands import COMMANDS
from relaylite.tui.files import HISTORY_LIMIT, History
from relaylite.tui.widgets.transcript.blocks import MessageBlock

UNUSABLE = {
    "ctrl+i": "Tab",
    "ctrl+m": "Enter",
    "ctrl+h": "Backspace",
    "ctrl+s": "flow control",
    "ctrl+z": "suspend",
    "ctrl+b": "tmux",
    "ctrl+a": "screen",
}


def test_enter_sends_and_chords_make_new_lines() -> None:
    app = scripted_app(agents=["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        for chord in ("ctrl+j", "shift+enter", "alt+enter"):
            await pilot.press("a", chord)
        await pilot.press("b")
        assert app.main.parts.input.text == "a\na\na\nb"
        await pilot.press("enter")
        await until(pilot, lambda: [each.task for each in app.conversation.rounds] == ["a\na\na\nb"])
        assert app.main.parts.input.text == ""

    drive(app, scenario)


@pytest.mark.parametrize(
    ("sequence", "key"),
    [("\r", "enter"), ("\n", "ctrl+j"), ("\x1b\r", "alt+enter"), ("\x1b[13;2u", "shift+enter"), ("\x1b[13;3u", "alt+enter")],
)
def test_what_terminals_send_for_enter_is_told_apart(sequence: str, key: str) -> None:
    scripted_app()
    parser = XTermParser()
    keys = [event.key for event in [*parser.feed(sequence), *parser.feed("")] if isinstance(event, events.Key)]
    assert keys == [key]


def test_history_goes_back_and_keeps_the_draft(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    app = scripted_app(agents=["plan"], history=History(file))

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "first")
        await ask(pilot, "second\nline")
        await pilot.press(*"draft", "up")
        assert app.main.parts.input.text == "second\nline"
        await pilot.press("up", "up")
        assert app.main.parts.input.text == "first"
        await pilot.press("down")
        assert app.main.parts.input.text == "second\nline"
        await pilot.press("down")
        assert app.main.parts.input.text == "draft"

    drive(app, scenario)
    assert History(file).entries == ["first", "second\nline"]
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_damaged_or_long_history_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    file.write_bytes(b'"good"\n{broken\n\xff\xfe\n42\n' + b'"x"\n"y"\n' * HISTORY_LIMIT)
    history = History(file)
    assert len(history.entries) <= HISTORY_LIMIT and history.entries[-1] == "y"
    history.add("new")
    assert History(file).entries[-1] == "new"


@pytest.mark.timeout(60)
def test_a_history_that_is_no_file_is_empty(tmp_path: Path) -> None:
    """A pipe would be waited for, a folder and a text without an end cannot be read."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "deep").write_text("[" * 100_000 + '\n"half \\ud800"\n"good"\n')
    for name, entries in (("pipe", []), (".", []), ("deep", ["good"])):
        history = History(tmp_path / name)
        assert history.entries == entries
        history.add("new")
        assert history.entries == [*entries, "new"]


@pytest.mark.parametrize("lines", [1, 4000])
def test_a_paste_of_200_kb_arrives_whole_and_is_sent_whole(lines: int) -> None:
    app = scripted_app(FakeEngine(n_ctx=300_000), agents=["plan"])
    text = "\n".join("0123456789" * (20_000 // lines) for _ in range(lines))
    assert len(text) >= 200_000

    async def scenario(pilot: Pilot[None]) -> None:
        start = time.monotonic()
        app.main.parts.input.post_message(events.Paste(text))
        await until(pilot, lambda: len(app.main.parts.input.text) == len(text))
        print(f"pasting {lines} lines took {time.monotonic() - start:.2f} s")
        assert app.main.parts.input.text == text
        await pilot.press("enter")
        await until(pilot, lambda: app.conversation.rounds and app.conversation.rounds[0].task == text, 60)
        block = next(block for block in app.main.parts.transcript.blocks if isinstance(block, MessageBlock))
        assert block.source == text
        assert block.region.height < 20, "a long message is shown folded"
        await until(pilot, lambda: not app.state.is_busy, 120)

    drive(app, scenario)


def test_pasted_control_characters_are_shown_not_obeyed() -> None:
    app = scripted_app(agents=["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        app.main.parts.input.post_message(events.Paste("a\x1b]52;c;ZXZpbA==\x07b\x00\r\nc"))
        await until(pilot, lambda: app.main.parts.input.text)
        assert app.main.parts.input.text == "a␛]52;c;ZXZpbA==␇b␀\nc"

    drive(app, scenario)


def test_every_key_is_one_that_terminals_send_and_nothing_else_needs() -> None:
    keys = [key for command in COMMANDS for key in command.keys.split(",") if key]
    assert len(keys) == len(set(keys))
    assert not set(keys) & UNUSABLE.keys()
    assert not [key for key in keys if key.startswith(("ctrl+shift", "super", "alt+"))]
    editing = {key for binding in TextArea.BINDINGS if isinstance(binding, Binding) for key in binding.key.split(",")}
    assert set(keys) & editing <= {"f6"}, "a command takes a key that edits the input"


def test_keys_can_be_set_in_the_settings() -> None:
    from relaylite.settings.settings import Settings, TuiSettings

    engine = FakeEngine()
    engine.token_gate.clear()
    app = scripted_app(engine, ["plan"], settings=Settings(tui=TuiSettings(keys={"cancel": "ctrl+x"})))

    async def scenario(pilot: Pilot[None]) -> None:
        app.main.parts.input.insert("go")
        await pilot.press("enter")
        await until(pilot, lambda: engine.in_generate.is_set() and app.main.parts.transcript.blocks)
        app.main.parts.transcript.blocks[0].focus()
        await pilot.press("ctrl+x")
        await until(pilot, lambda: not app.state.is_busy)

    drive(app, scenario)
