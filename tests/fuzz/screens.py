"""Keys, clicks, pastes and resizes at random, over all screens of the app: whatever a user does, the app lives on.

The engine is scripted. What is done comes from the seed; when it arrives, beside the engine's thread, does not quite.
"""

from __future__ import annotations

import asyncio
from contextlib import chdir
from pathlib import Path

import numpy as np
from support.app_driver import scripted_app, until
from support.fakes import FakeEngine
from textual import events
from textual.errors import NoWidget
from textual.pilot import OutOfBounds, Pilot

from relaylite.tui.app import RelayApp
from relaylite.tui.commands import COMMANDS
from relaylite.tui.files import History

STEPS = 60
LEAVES = {"ctrl+q", "ctrl+c", "ctrl+g"}  # quit, and what hands the terminal to an editor
KEYS = [
    *(key for command in COMMANDS for key in command.keys.split(",") if key and key not in LEAVES),
    *[
        "escape",
        "escape",
        "enter",
        "enter",
        "enter",
        "tab",
        "shift+tab",
        "up",
        "down",
        "left",
        "right",
        "home",
        "end",
        "pageup",
        "pagedown",
        "space",
        "delete",
        "backspace",
    ],
    *[
        "ctrl+p",
        "ctrl+d",
        "ctrl+j",
        "ctrl+u",
        "ctrl+w",
        "ctrl+x",
        "f7",
        "f10",
        "plus",
        "minus",
        "left_square_bracket",
        "right_square_bracket",
    ],
    *"abcdehjkmpruvwxyz019/@",
    "ß",
    "漢",
    "\u00a0",
]
TEXTS = [
    "Say something.",
    "one\ntwo\r\nthree\rfour",
    "```python\ndef f(x):\n\treturn x\n```\n\n| a | b |\n|---|---|\n| " + "wide " * 30 + "| 2 |",
    "\x1b]52;c;ZXZpbA==\x07\x1b[2J \u202e x",
    "- list\n  - in it\n> quote\n\n```\nnever closed",
    "straße İstanbul 👨‍👩‍👧‍👦 漢字",
    "",
]
SIZES = [(80, 24), (120, 40), (200, 60), (100, 30), (40, 12), (20, 8), (97, 16), (5, 30), (4, 4), (1, 1), (3, 40), (60, 2)]


def run(rng: np.random.Generator, folder: Path) -> None:
    """One start of the app, `STEPS` things done to it, and its end. Raises what the app raised."""
    engine = FakeEngine(n_ctx=int(rng.choice([600, 4096])), n_layer=int(rng.integers(1, 40)))
    engine.enqueue(*(TEXTS[i] for i in rng.integers(0, len(TEXTS) - 1, size=12)))
    engine.token_delay = float(rng.choice([0, 0.002]))
    agents = ["plan", "code", "review"][: int(rng.integers(1, 4))]
    with chdir(folder):
        app = scripted_app(engine, agents, history=History(folder / "history.jsonl"))
        asyncio.run(_session(app, rng))


async def _session(app: RelayApp, rng: np.random.Generator) -> None:
    done: list[str] = []
    size = SIZES[int(rng.integers(0, 4))]
    async with app.run_test(size=size, notifications=True) as pilot:
        if rng.random() < 0.8:
            await until(pilot, lambda: app.state.info is not None)
        for _ in range(STEPS):
            if not app.is_running:
                break
            try:
                done.append(await _step(pilot, app, rng))
            except (OutOfBounds, NoWidget):
                pass  # the screen became smaller meanwhile
            except BaseException as error:
                error.add_note(f"after {', '.join(done)}")
                raise
            if rng.random() < 0.3:
                await pilot.pause(float(rng.choice([0, 0.05])))
    assert not app.failure, f"{app.failure}: after {', '.join(done)}"
    assert app.engine.close(60.0), "the engine's thread did not end"


async def _step(pilot: Pilot[None], app: RelayApp, rng: np.random.Generator) -> str:
    """Do something; what it was."""
    kind = rng.random()
    width, height = app.size
    place = (int(rng.integers(0, width)), int(rng.integers(0, height)))
    if kind < 0.6:
        key = KEYS[int(rng.integers(0, len(KEYS)))]
        app.post_message(events.Key(key, key if len(key) == 1 else {"space": " ", "plus": "+", "minus": "-"}.get(key)))
        return key
    if kind < 0.7:
        text = TEXTS[int(rng.integers(0, len(TEXTS)))]
        app.post_message(events.Paste(text))
        return f"paste {text!r}"
    if kind < 0.78:
        new = SIZES[int(rng.integers(0, len(SIZES)))]
        await pilot.resize_terminal(*new)
        return f"size {new}"
    if kind < 0.82:
        app.main.parts.input.focus()
        app.post_message(events.Key("enter", None))
        return "focus input, enter"
    if kind < 0.92:
        await pilot.click(offset=place, times=int(rng.integers(1, 3)))
        return f"click {place}"
    await pilot.hover(offset=place)
    return f"hover {place}"
