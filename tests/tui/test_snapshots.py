"""Six screens as text, for what no assertion on state sees: alignment, what is cut, what stands where.

Each is compared with its file in `snapshots/`; `UPDATE_SNAPSHOTS=1` writes them anew. Figures are given, not measured.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from support.app_driver import drive, screen_text, scripted_app, until
from support.fakes import FakeEngine
from textual.pilot import Pilot

from relaylite.engine.interface import Memory
from relaylite.events import ChainFinished, ChainStarted, Phase, PrefillDone, PromptPart, TextDelta, Turn, TurnFinished, TurnStarted
from relaylite.metrics import CellMap, TtftParts, TurnMetrics
from relaylite.tui.app import RelayApp
from relaylite.tui.engine.reports import RunEnded
from relaylite.tui.widgets.inspector.metrics_panel import MetricsPanel

FOLDER = Path(__file__).parent / "snapshots"
PLAN = "1. Read both lists with **two indices**.\n2. Take the smaller head each time.\n3. Append what is left of either list."
CODE = "Here it is:\n\n```python\ndef merge(a, b):\n    out = []\n    return out\n```\n\nIt walks both lists once."


def parts(*parts: tuple[str, str, int]) -> tuple[PromptPart, ...]:
    return tuple(PromptPart(kind, source, tuple(97 + i % 26 for i in range(n)), "some text") for kind, source, n in parts)  # type: ignore[arg-type]


def metrics(prefix: int, span: int, new: int, ttft: float, full: float) -> TurnMetrics:
    n = prefix + span + new
    times = TtftParts(0.01 * ttft, 0.02 * ttft, 0.6 * ttft, 0.36 * ttft, 0.01 * ttft)
    reuse = 0.86 if span else 0.0
    known = full, 0.9 * full, 1.2 * full, 0.8 * full, 0.7 * full, 0.9 * full
    return TurnMetrics(n, prefix, span, new, span // 6, reuse, (prefix + reuse * span) / n, ttft, times, 90, 41.3, n + 90, 4096, *known)


def cells(prefix: int, span: int, new: int) -> CellMap:
    kinds = np.repeat(np.array([CellMap.PREFIX, CellMap.REUSED, CellMap.NEW], np.uint8), [prefix, span, new])
    grid = np.tile(kinds, (16, 1))
    grid[4:, prefix : prefix + span : 6] = CellMap.RECOMPUTED
    return CellMap(grid, np.where(kinds == CellMap.REUSED, 0.0123, np.nan).astype(np.float32))


def answer(
    agent: str, index: int, text: str, shape: tuple[int, int, int], ttft: float, full: float, prompt: tuple[PromptPart, ...]
) -> list[object]:
    figures, grid = metrics(*shape, ttft, full), cells(*shape)
    turn = Turn(agent, index, 0, text, (), "stop", figures, prompt, grid)
    return [
        TurnStarted(agent, index, prompt),
        *(Phase(name) for name in ("place", "repair", "suffix")),  # type: ignore[arg-type]
        PrefillDone(agent, figures, grid),
        TextDelta(agent, text, 90),
        TurnFinished(turn),
    ]


async def talk(app: RelayApp) -> None:
    """A round of two agents with given figures, as the engine would report it."""
    app.state.unsent.append("Write a function that merges two sorted lists.")
    first = parts(("template", "", 4), ("system", "plan", 60), ("user", "", 12), ("template", "", 4))
    second = parts(("template", "", 4), ("system", "code", 70), ("user", "", 12), ("glue", "", 6), ("answer", "plan", 90), ("glue", "", 8))
    reports = [ChainStarted(("plan", "code"), "relay", 0)]
    reports += answer("plan", 0, PLAN, (0, 0, 80), 310.0, 310.0, first)
    reports += answer("code", 1, CODE, (86, 90, 14), 62.0, 736.0, second)
    for report in [*reports, ChainFinished((), 5000.0, 400.0), RunEnded("done")]:
        await app.main.view.show(report)  # type: ignore[arg-type]


async def check(name: str, pilot: Pilot[None], app: RelayApp) -> None:
    """Drawing takes as many steps as it takes: the screen has to come to what is in the file."""
    file = FOLDER / f"{name}.txt"

    def shown() -> str:
        return "\n".join(line.rstrip() for line in screen_text(app).splitlines()) + "\n"

    if os.environ.get("UPDATE_SNAPSHOTS"):
        await pilot.pause(1)
        file.write_text(shown(), encoding="utf-8")
    wanted = file.read_text(encoding="utf-8")
    with suppress(AssertionError):
        await until(pilot, lambda: shown() == wanted)
    assert shown() == wanted, f"{name} looks different; UPDATE_SNAPSHOTS=1 takes the new look over"


SCREENS = {
    # name: size, keys, what the picture is there to show
    "main-80x24": ((80, 24), (), "The transcript, chain strip, status and input fit 80 columns, nothing is cut in mid-word."),
    "main-160x48": ((160, 48), (), "A wide screen has figures, map and history beside the transcript, columns aligned."),
    "figures-80x24": ((80, 24), ("f2",), "Narrow screens show the figures instead of the transcript."),
    "prompt-80x24": ((80, 24), ("p",), "An unfolded prompt names the origin and fate of each part."),
    "map-80x24": ((80, 24), ("f3", "right", "right", "up"), "The map with origins above and the named cell below."),
    "tiny-20x8": ((20, 8), (), "The smallest screen still shows the answer and the input."),
}


@pytest.mark.parametrize("name", SCREENS)
def test_the_screen_looks_as_it_did(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    size, keys, _ = SCREENS[name]
    if name.startswith("map"):
        monkeypatch.setenv("NO_COLOR", "1")  # its signs instead of half blocks, so that the text shows the cells
    app = scripted_app(FakeEngine(n_layer=16), ["plan", "code"])

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.main.query_one(MetricsPanel)._memory)  # else that of opening could come after ours
        await talk(app)
        app.main.parts.inspector.show_memory(Memory(resident_bytes=412_000_000, store_bytes=38_000_000))
        if name.startswith("prompt"):
            app.main.parts.transcript.blocks[-1].focus()
        await pilot.press(*keys)
        if name.startswith("prompt"):
            await until(pilot, lambda: "chat template" in screen_text(app).splitlines()[4])
        app.main.parts.input.cursor_blink = False
        await check(name, pilot, app)

    drive(app, scenario, size=size)
