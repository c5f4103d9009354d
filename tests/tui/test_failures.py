"""Nothing ends the app that need not, and an end that nobody asked for is explained, in one line, with the way to go on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.app_driver import ask, drive, scripted_app, until
from support.fakes import FakeEngine
from support.pty_app import PtyApp
from textual import events
from textual.pilot import Pilot

from relaylite.tui.mends import InputDecoder
from relaylite.tui.screens.main.acts import ACTS
from relaylite.tui.screens.map_screen import MapScreen
from relaylite.tui.widgets.inspector.map_panel import MapPanel

BREAKS = """
from relaylite.tui.widgets.search_bar import SearchBar
def fail(self): raise IndexError("tuple index out of range")
SearchBar.open = fail
"""


@contextmanager
def pty_app(*arguments: str, **options: Any) -> Iterator[PtyApp]:
    app = PtyApp(*arguments, **options)
    try:
        yield app
    finally:
        app.close()


def test_every_position_of_a_map_of_two_rounds_has_its_token() -> None:
    app = scripted_app(FakeEngine(), ["plan", "code"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "first")
        await ask(pilot, "second")
        await pilot.press("f3", "end")
        await until(pilot, lambda: isinstance(app.screen, MapScreen))
        panel = app.screen.query_one(MapPanel)
        for turn in app.conversation.turns():
            panel.show(turn)
            tokens = [token for part in turn.parts for token in part.tokens]
            assert turn.cells is not None and turn.cells.cells.shape[1] == len(tokens)
            for position, token in enumerate(tokens):
                panel.view.set_cursor(position, 0)
                piece = app.engine.piece(token)
                assert f"token {position:,}/" in panel.readout
                assert (f"‘{piece}’" if piece.strip() else "token") in panel.readout

    drive(app, scenario)


@pytest.mark.parametrize("leave", ["escape", "enter", "ctrl+d", "q"])
def test_every_dialog_can_be_left_at_once(leave: str) -> None:
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "first")
        for name in ACTS:
            app.main.action_command(name)
            app.post_message(events.Key(leave, None))
            app.post_message(events.Key("escape", None))
            await pilot.pause(0.05)
        app.action_command_palette()
        app.post_message(events.Key(leave, None))
        await pilot.pause(1.0)  # so long looking for models on this machine may take
        assert not app.failure

    drive(app, scenario)


def test_a_crash_is_one_line_and_the_conversation_goes_on_under_a_name(home: Path) -> None:
    with pty_app("chat", "--agents", "plan", preparation=BREAKS) as app:
        app.wait_for("fake")
        app.send("Say something.\r")
        app.wait_for("Understood.")
        app.wait_for("TTFT")
        app.send(b"\x06")  # Ctrl+F
        assert app.wait_end() == 1
        [said] = [line for line in app.received.decode(errors="replace").splitlines() if "relaylite: " in line]
        assert "IndexError: tuple index out of range" in said and "tui.log" in said
        assert b"Traceback" not in app.received
        name = re.search(r"--session (\S+)", said)
        assert name and "Understood." in (home / "data" / "sessions" / f"{name[1].rstrip()}.json").read_text()
    assert "IndexError" in (home / "logs" / "tui.log").read_text()


def test_bytes_that_are_no_utf8_and_old_mouse_reports_change_nothing() -> None:
    with pty_app("chat", "--agents", "plan") as app:
        app.wait_for("fake")
        app.send(b"\x1b[M \xf0\xe9")
        app.send(b"caf\xe9 \xff")
        place = app.wait_for("caf")
        app.send("Käse\r")
        app.wait_for("Understood.", place)
        app.send(b"\x11")
        assert app.wait_end() == 0


def test_input_is_decoded_piece_by_piece() -> None:
    whole = "aß漢".encode() + b"\x1b[M !\xff" + b"b\xff\x1b[A"
    for cut in (at for at in range(len(whole) + 1) if whole[at - 1 : at] != b"\x1b"):  # Esc alone is a key
        decoder = InputDecoder()
        assert decoder.decode(whole[:cut]) + decoder.decode(whole[cut:], final=True) == "aß漢b\ufffd\x1b[A"


@pytest.mark.parametrize("size", [(1, 1), (5, 1), (300, 2)])
def test_every_screen_can_be_shown_in_any_terminal(size: tuple[int, int]) -> None:
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "first")
        for name in ACTS:
            await pilot.resize_terminal(100, 30)
            app.main.action_command(name)
            await pilot.pause(0.02)
            await pilot.resize_terminal(*size)
            await pilot.press("down")
            if app.screen is not app.main:
                await pilot.press("escape")
        assert not app.failure

    drive(app, scenario, size)


def test_a_dumb_terminal_gets_lines() -> None:
    with pty_app("chat", "--help", environment={"TERM": "dumb"}) as app:
        assert app.wait_end() == 0
    code = "from relaylite.settings.settings import Settings; from relaylite.tui import run_app; run_app(Settings())"
    with pty_app(
        "chat", preparation=f"import sys\ntry:\n    {code}\nexcept Exception as e: sys.exit(str(e))", environment={"TERM": "dumb"}
    ) as app:
        assert app.wait_end() == 1
        assert b"--plain" in app.received and b"\x1b[?1049h" not in app.received
