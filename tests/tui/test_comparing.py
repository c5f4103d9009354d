"""The same turn under two policies in the app: chosen in a dialog, shown side by side, and the conversation stays as it is."""

from __future__ import annotations

import pytest
from support.app_driver import ask, drive, notices, open_dialog, screen_text, scripted_app, until
from support.fakes import FakeEngine
from textual.containers import VerticalScroll
from textual.pilot import Pilot

from relaylite.tui.screens.comparison_dialog import ComparisonDialog
from relaylite.tui.screens.dialog import ChoiceDialog

SAME = "".join(f"{n}. Look.\n\n" for n in range(20))


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_both_answers_are_shown_where_they_part(size: tuple[int, int]) -> None:
    engine = FakeEngine()
    engine.enqueue("a plan", f"{SAME}Then take the smaller head.", f"{SAME}Now sort them.")
    app = scripted_app(engine, ["plan", "code"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "Sort.")
        await pilot.press("tab")
        await open_dialog(pilot, "x", ChoiceDialog)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ComparisonDialog) and app.screen._is_ready)
        await until(pilot, lambda: "hen take the smaller head" in screen_text(app) and "ow sort them" in screen_text(app))
        text, sides = screen_text(app), list(app.screen.query(VerticalScroll))
        assert f"They part at token {len(SAME) + 1:,}: “T” here, “N” under full." in text
        assert (sides[0].region.y == sides[1].region.y) == (size[0] == 120)
        assert "prompt reuse" in text and "recomputed" in text and len(engine.plans) == 3
        await until(pilot, lambda: sides[0].scroll_y > 0)
        before = sides[0].scroll_y
        await pilot.press("up", "up")
        assert all(side.scroll_y == max(0, before - 2) for side in sides)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.main)
        assert not app.state.is_measuring
        assert [turn.text for turn in app.conversation.turns()] == ["a plan", f"{SAME}Then take the smaller head."]

    drive(app, scenario, size)


def test_the_palette_compares_the_last_answer_and_equal_ones_are_said_to_be() -> None:
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        app.main.action_command("compare")
        await pilot.pause()
        assert app.screen is app.main
        await ask(pilot, "Sort.")
        app.main.action_command("compare")
        await until(pilot, lambda: isinstance(app.screen, ChoiceDialog))
        await pilot.pause()
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(app.screen, ComparisonDialog))
        await until(pilot, lambda: "The same 11 tokens" in screen_text(app) and "this answer and prefix" in screen_text(app))

    drive(app, scenario)


def test_a_comparison_can_be_stopped_and_shows_how_far_it_is() -> None:
    engine = FakeEngine()
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "Sort.")
        engine.token_gate.clear()
        await pilot.press("tab")
        await open_dialog(pilot, "x", ChoiceDialog)
        await pilot.press("enter")
        await until(pilot, lambda: "Comparing with full… 0 tokens · Esc stops" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: not app.state.is_measuring)
        assert app.screen is app.main and "Stopped." in notices(app)
        engine.token_gate.set()

    drive(app, scenario)


def test_an_edited_answer_is_refused() -> None:
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "Sort.")
        app.engine.edit(0, 0, "Mine.")
        await until(pilot, lambda: app.conversation.rounds[0].turns[0].was_edited)
        await pilot.press("tab")
        await open_dialog(pilot, "x", ChoiceDialog)
        await pilot.press("enter")
        await until(pilot, lambda: any("plan's answer was edited" in notice for notice in notices(app)))
        assert not app.state.is_measuring

    drive(app, scenario)
