"""Notices are seen and lie over nothing; what matters is not cut; the panel and the theme are where they were left."""

from __future__ import annotations

from support.app_driver import ask, drive, open_dialog, screen_text, scripted_app, until
from support.fakes import FakeEngine
from textual.pilot import Pilot
from textual.widgets import Input

from relaylite.tui.screens.map_screen import MapScreen
from relaylite.tui.screens.pages import HelpPage
from relaylite.tui.widgets.inspector.map_panel import MapPanel
from relaylite.tui.widgets.transcript.blocks import TurnHead


def test_a_notice_makes_room_for_itself() -> None:
    engine = FakeEngine()
    engine.enqueue("\n\n".join(f"paragraph {i}" for i in range(30)))
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        bar, transcript = app.main.parts.notices, app.main.parts.transcript
        before = transcript.region.height
        app.notify("Something is so.", severity="warning", timeout=1)
        await until(pilot, lambda: "Something is so." in screen_text(app) and transcript.region.height < before)
        others = [widget for widget in app.main.children if widget is not bar and widget.display and widget.id != "textual-toastrack"]
        assert not [widget for widget in others if widget.region.overlaps(bar.region)]
        assert screen_text(app).count("Something is so.") == 1, "it lies over something too"
        await until(pilot, lambda: "paragraph 29" in screen_text(app))
        await until(pilot, lambda: not bar.display and transcript.region.height == before, 10)

    drive(app, scenario)


def test_over_a_dialog_a_notice_stands_in_its_frame_and_waits_below() -> None:
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await open_dialog(pilot, "f1", HelpPage)
        app.notify("Something is so.", timeout=0.5)
        await until(pilot, lambda: "Something is so." in str(app.screen.query_one(".dialog").border_subtitle))
        await until(pilot, lambda: "Esc leaves" in str(app.screen.query_one(".dialog").border_subtitle), 10)
        assert app.main.parts.notices.display, "its time went by while it could not be seen"
        await pilot.press("escape")
        await until(pilot, lambda: not app.main.parts.notices.display, 10)

    drive(app, scenario)


def test_a_pause_says_what_goes_on_where_it_can_be_seen() -> None:
    app = scripted_app(FakeEngine(), ["plan", "code"])
    app.state.pauses = frozenset({0})

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        await until(pilot, lambda: "Paused after plan: Enter goes on" in screen_text(app))
        await until(pilot, lambda: "Enter goes on with code" in screen_text(app))
        app.main.parts.input.focus()
        await pilot.press("enter")
        await until(pilot, lambda: app.main.parts.chain.states == ["done", "done"] and not app.state.is_busy)
        await until(pilot, lambda: "Message to the agents" in screen_text(app) and "goes on" not in screen_text(app))

    drive(app, scenario)


def test_a_title_that_is_cut_keeps_its_warning() -> None:
    from relaylite.settings.settings import Settings

    engine = FakeEngine()
    engine.enqueue("x" * 600)
    app = scripted_app(engine, ["plan"], settings=Settings())

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        last = app.conversation.last
        assert last is not None
        last.finish_reason = "length"
        head = app.main.query_one(TurnHead)
        head.parent.refresh_title()  # type: ignore[union-attr]
        await until(pilot, lambda: "cut at max tokens" in screen_text(app))

    drive(app, scenario, size=(42, 24))


def test_figures_that_were_hidden_on_a_wide_screen_do_not_hide_the_conversation_on_a_narrow_one() -> None:
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        inspector, transcript = app.main.parts.inspector, app.main.parts.transcript
        await pilot.press("f2")
        assert not inspector.display
        for size in ((100, 30), (80, 24), (30, 20)):
            await pilot.resize_terminal(*size)
            assert transcript.display and not inspector.display, size
        await pilot.press("f2")
        assert inspector.display and not transcript.display
        await pilot.resize_terminal(130, 30)
        assert transcript.display and not inspector.display
        await pilot.resize_terminal(80, 24)
        assert transcript.display

    drive(app, scenario, size=(130, 30))


def test_zooming_the_map_changes_letters_and_range_with_it() -> None:
    app = scripted_app(FakeEngine(), ["plan", "code"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "first " * 30)
        await pilot.press("f3")
        await until(pilot, lambda: isinstance(app.screen, MapScreen) and app.screen.query(MapPanel))
        panel = app.screen.query_one(MapPanel)
        await pilot.press("plus")
        start, end = panel.view.window
        await until(pilot, lambda: f"showing {start:,}–{end:,}" in " ".join(screen_text(app).split()))
        letters = str(panel.query_one(".origins").render())  # type: ignore[attr-defined]
        assert letters == panel._origins().plain

    drive(app, scenario)


def test_a_theme_that_was_chosen_is_that_of_the_next_start() -> None:
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        app.theme = "relay-light"
        await pilot.pause(0.1)

    drive(app, scenario)
    assert scripted_app(FakeEngine(), ["plan"]).theme == "relay-light"


def test_the_key_help_names_what_is_easily_missed() -> None:
    app = scripted_app(FakeEngine(), ["plan"])
    text = "\n".join(line.plain for line in HelpPage({}).lines())
    for wanted in ("on an empty input go on", "@notes.md", "Zoom in and out", "$EDITOR", "newest block", "Write a code block"):
        assert wanted in " ".join(text.split()), wanted
    assert app.main.parts.input.placeholder and Input
