"""Pictures of the terminal app: the main screen, the cell map, an error.

The real app runs without a terminal, on the default model: what the pictures show is computed and measured while they are made.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from pages import IMAGES
from textual.pilot import Pilot

from relaylite import paths
from relaylite.chain.agents import choose_agents, load_agents
from relaylite.reuse.policies import RELAY
from relaylite.settings.settings import Settings
from relaylite.tui.app import RelayApp
from relaylite.tui.engine.opener import ModelOpener
from relaylite.tui.engine.thread import EngineThread
from relaylite.tui.files import History
from relaylite.tui.run_state import RunState

MESSAGES = ("Write a Python function that merges two sorted lists.", "Now write a test for it.")
PATIENCE_S = 600.0

Play = Callable[[Pilot[None], RelayApp], Awaitable[None]]


async def until(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("the model did not answer in ten minutes; a quieter machine is needed")
        await pilot.pause(0.05)


async def picture(app: RelayApp, size: tuple[int, int], play: Play) -> str:
    async with app.run_test(size=size, notifications=True) as pilot:
        await play(pilot, app)
        await pilot.pause(0.5)
        app.main.parts.input.cursor_blink = False
        drawn = app.export_screenshot(title="relaylite chat", simplify=True)
    app.engine.close(10.0)
    return drawn


def new_app(settings: Settings) -> RelayApp:
    known = load_agents()
    agents = choose_agents(settings.agents, known)
    return RelayApp(settings, EngineThread(ModelOpener(settings), agents, RELAY), RunState(tuple(agents), RELAY, known), History(None))


def has_answered(app: RelayApp, number: int) -> bool:
    return len(app.conversation.rounds) > number and not app.state.is_busy


async def talk(pilot: Pilot[None], app: RelayApp, messages: tuple[str, ...]) -> None:
    await until(pilot, lambda: app.state.info is not None)
    for number, message in enumerate(messages):
        app.main.parts.input.insert(message)
        await pilot.press("enter")
        await until(pilot, partial(has_answered, app, number))


async def main_screen(pilot: Pilot[None], app: RelayApp) -> None:
    await talk(pilot, app, MESSAGES)
    await pilot.press("f6")
    await until(pilot, lambda: app.conversation.last is not None and app.conversation.last.full_ms is not None)


async def cell_map(pilot: Pilot[None], app: RelayApp) -> None:
    await talk(pilot, app, MESSAGES[:1])
    await pilot.press("f3")
    await pilot.pause(0.3)
    view = app.screen.query_one("CellMapView")
    cells = app.conversation.last.cells if app.conversation.last else None
    if cells is not None:
        recomputed = (cells.cells == cells.RECOMPUTED).any(axis=0).nonzero()[0]
        view.set_cursor(int(recomputed[len(recomputed) // 2]) if len(recomputed) else 0, cells.cells.shape[0] // 2)  # type: ignore[attr-defined]


async def error(pilot: Pilot[None], app: RelayApp) -> None:
    await talk(pilot, app, ())
    app.main.parts.input.insert("Summarize this: " + "one two three four " * 2000)
    await pilot.press("enter")
    await until(pilot, lambda: not app.state.is_busy and app._notifications)


SCREENS: dict[str, tuple[tuple[int, int], Play]] = {
    "main": ((140, 46), main_screen),
    "cell-map": ((100, 30), cell_map),
    "error": ((80, 24), error),
}


def files() -> dict[Path, str]:
    settings = Settings(model="default", max_tokens=100, repeat_penalty=1.2)
    with tempfile.TemporaryDirectory() as home:
        os.environ[paths.HOME_VARIABLE] = home  # rows kept from earlier runs would be taken over, and shown so
        return {IMAGES / f"{name}.svg": asyncio.run(picture(new_app(settings), size, play)) for name, (size, play) in SCREENS.items()}
