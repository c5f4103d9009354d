"""Figures, history plot and cell map: what they say of a turn, estimated or measured."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.app_driver import ask, drive, notices, screen_text, scripted_app, until
from support.fakes import FakeEngine
from textual.pilot import Pilot

from relaylite.events import PromptPart
from relaylite.metrics import CellMap, TtftParts, TurnMetrics
from relaylite.tui.conversation import Conversation, TurnRecord
from relaylite.tui.screens.map_screen import MapScreen
from relaylite.tui.text import figures
from relaylite.tui.widgets.inspector.cell_map import CellMapView
from relaylite.tui.widgets.inspector.cell_picture import draw
from relaylite.tui.widgets.inspector.history_plot import plot
from relaylite.tui.widgets.inspector.map_panel import MapPanel
from relaylite.tui.widgets.inspector.metrics_panel import MetricsPanel

PLAN = "first walk both lists with two indices, then take the smaller head, then append the rest"


def record(ttft: float = 100.0, full: float = 500.0, **metrics: float) -> TurnRecord:
    values = TurnMetrics(
        prompt_tokens=400,
        prefix_tokens=100,
        span_tokens=250,
        computed_tokens=50,
        recomputed_tokens=40,
        reuse_ratio=0.875,
        prompt_reuse=0.8,
        ttft_ms=ttft,
        ttft_parts_ms=TtftParts(1, 2, 60, 36, 1),
        generated_tokens=77,
        decode_tokens_per_s=41.5,
        context_used=477,
        context_size=4096,
        full_ttft_estimate_ms=full,
        full_ttft_low_ms=0.9 * full,
        full_ttft_high_ms=1.2 * full,
        prefix_ttft_estimate_ms=0.8 * full,
        prefix_ttft_low_ms=0.7 * full,
        prefix_ttft_high_ms=0.9 * full,
    )
    return TurnRecord("code", 1, 0, state="done", metrics=values, is_kept=True)


def test_the_panel_names_every_figure_and_marks_an_estimate() -> None:
    app = scripted_app()

    async def scenario(pilot: Pilot[None]) -> None:
        turn = record()
        shown = app.main.query_one(MetricsPanel).content_of(turn).plain
        for text in ("100 ms", "render", "place", "repair", "suffix", "sample", "88 %", "80 %", "41.5 tk/s", "477 of 4,096"):
            assert text in shown, text
        assert "relayed" in shown and next(line.split()[1] for line in shown.splitlines() if line.split()[0] == "relayed") == "250"
        assert "≈ 500 ms" in shown and "5.0× est. ± 20 %" in shown
        turn.full_ms = 450.0
        shown = app.main.query_one(MetricsPanel).content_of(turn).plain
        assert "450 ms" in shown and "≈ 450" not in shown and "4.5× measured" in shown

    drive(app, scenario, size=(140, 40))


def test_saved_time_counts_what_relaying_saved_beyond_an_exact_prefix() -> None:
    conversation = Conversation()
    current = conversation.start_round("x", 0)
    reused, fresh = record(100, 500), record(100, 500)
    assert fresh.metrics is not None
    fresh.metrics.span_tokens = 0
    current.turns += [reused, fresh]
    assert conversation.saved() == (300.0, pytest.approx(50.0), 1)
    reused.full_ms = 300.0
    assert conversation.saved() == (pytest.approx(140.0), pytest.approx(30.0), 1)


def test_the_measuring_key_runs_a_full_prefill_and_marks_it_measured() -> None:
    engine = FakeEngine()
    engine.enqueue(PLAN)
    app = scripted_app(engine, ["plan", "code"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        n_plans = len(engine.plans)
        await pilot.press("f6")
        last = app.conversation.last
        await until(pilot, lambda: last is not None and last.full_ms is not None)
        assert len(engine.plans) == n_plans + 1
        assert engine.plans[-1].policy.name == "full"
        await until(pilot, lambda: "measured" in screen_text(app))
        await ask(pilot, "and on")

    drive(app, scenario, size=(140, 40))


def test_esc_stops_measuring() -> None:
    engine = FakeEngine()
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        engine.prefill_gate.clear()
        await pilot.press("f6")
        await until(pilot, engine.in_prefill.is_set)
        await pilot.press("escape")
        await until(pilot, lambda: not app.state.is_measuring)
        engine.prefill_gate.set()
        await until(pilot, lambda: notices(app) == ["Stopped."])

    drive(app, scenario)


def test_the_plot_shows_bars_below_their_full_prefill_marks() -> None:
    turns = [record(500, 0), record(100, 500), record(50, 500)]
    turns[2].full_ms = 250.0
    lines = ["".join(text for text, _ in row) for row in plot(turns, 12, 8)]
    columns = [[line[8 + 2 * i + 1] for line in lines] for i in range(3)]
    assert columns[0] == ["█"] * 8
    assert columns[1].count("○") == 1 and columns[1].index("○") == 0
    assert columns[2].count("●") == 1 and columns[2].index("●") == 3
    assert columns[2][-1] in "▄▅▆▇█" and columns[2][-2] == " "


def test_the_plot_keeps_the_latest_turns_that_fit() -> None:
    turns = [record(10 * n, 0) for n in range(1, 41)]
    lines = ["".join(text for text, _ in row) for row in plot(turns, 20, 4)]
    assert all(len(line) == 8 + 20 for line in lines)
    assert "400 ms" in lines[0]


@given(n_layer=st.integers(1, 40), n=st.integers(1, 300), rows=st.integers(1, 60), columns=st.integers(1, 120), seed=st.integers(0, 99))
def test_a_picture_counts_every_cell_once(n_layer: int, n: int, rows: int, columns: int, seed: int) -> None:
    cells = np.random.default_rng(seed).integers(0, 4, (n_layer, n), dtype=np.uint8)
    picture = draw(cells, rows, columns)
    areas = np.outer(-np.diff(picture.y), np.diff(picture.x))
    for kind in range(4):
        assert round(float((picture.shares[:, :, kind] * areas).sum())) == (cells == kind).sum()
    for position in {0, n // 2, n - 1}:
        column = picture.column_of(position)
        assert picture.x[column] <= position < picture.x[column + 1]
    for layer in {0, n_layer // 2, n_layer - 1}:
        row = picture.row_of(layer)
        assert picture.y[row + 1] <= layer < picture.y[row]


def test_each_cell_has_its_own_place_where_there_is_room() -> None:
    cells = np.array([[0, 1, 2, 3], [3, 2, 1, 0]], np.uint8)
    assert (draw(cells, 10, 10).kinds == cells[::-1]).all()


def long_map(n: int = 8000, n_layer: int = 32) -> TurnRecord:
    cells = np.full((n_layer, n), CellMap.REUSED, np.uint8)
    cells[:, :1000], cells[:, 7000:] = CellMap.PREFIX, CellMap.NEW
    cells[4:, 4000:4400] = CellMap.RECOMPUTED
    deviation = np.full(n, np.nan, np.float32)
    deviation[1000:7000] = 0.25
    tokens = tuple(97 + i % 26 for i in range(n))
    parts = (
        PromptPart("system", "code", tokens[:1000], ""),
        PromptPart("answer", "plan", tokens[1000:7000], ""),
        PromptPart("user", "", tokens[7000:], ""),
    )
    turn = record()
    turn.cells, turn.parts = CellMap(cells, deviation), parts
    return turn


@pytest.mark.parametrize("no_color", [False, True])
def test_a_map_of_8000_tokens_is_binned_to_80_columns(no_color: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    app = scripted_app()

    async def scenario(pilot: Pilot[None]) -> None:
        await app.push_screen(MapScreen([long_map()], None, lambda token: chr(token), app.state.color_of))
        await pilot.pause()
        view = app.screen.query_one(CellMapView)
        assert view.size.width >= 76 and view.size.height >= 14
        lines = [view.render_line(y).text for y in range(view.size.height)]
        if no_color:
            assert {"·", "░", "▓", "█"} <= set("".join(lines))
            assert "▓" not in lines[-1], "the first layers were not recomputed"
        else:
            styles = {(segment.style.color, segment.style.bgcolor) for y in range(4) for segment in view.render_line(y) if segment.style}
            assert len(styles) >= 4

    drive(app, scenario, size=(80, 24))


def test_the_cursor_names_token_layer_deviation_and_origin() -> None:
    app = scripted_app()

    async def scenario(pilot: Pilot[None]) -> None:
        await app.push_screen(MapScreen([long_map()], None, lambda token: chr(token), app.state.color_of))
        await pilot.pause()
        panel = app.screen.query_one(MapPanel)
        panel.view.set_cursor(4100, 10)
        await pilot.pause()
        assert "4,100/8,000 ‘" + chr(97 + 4100 % 26) + "’" in panel.readout
        assert "layer 10/32" in panel.readout and "recomputed" in panel.readout
        assert "deviation 0.2500" in panel.readout and "from plan" in panel.readout
        await pilot.press("right", "down")
        assert "4,101/8,000" in panel.readout and "layer 9/32" in panel.readout
        await pilot.press("home")
        assert "0/8,000" in panel.readout and "prefix" in panel.readout and "not measured" in panel.readout
        await pilot.press("end")
        assert "7,999/8,000" in panel.readout and "new" in panel.readout and "your message" in panel.readout

    drive(app, scenario, size=(80, 24))


def test_zooming_gives_each_token_a_column_and_the_mouse_points() -> None:
    app = scripted_app()

    async def scenario(pilot: Pilot[None]) -> None:
        await app.push_screen(MapScreen([long_map()], None, lambda token: chr(token), app.state.color_of))
        await pilot.pause()
        panel = app.screen.query_one(MapPanel)
        panel.view.set_cursor(4000, 0)
        await pilot.press(*["plus"] * 7)
        start, end = panel.view.window
        assert end - start == 62 and start <= 4000 < end
        await pilot.hover(CellMapView, offset=(1, 1))
        assert panel.view.cursor_position == start + 1
        await pilot.press(*["minus"] * 8)
        assert panel.view.window == (0, 8000)

    drive(app, scenario, size=(80, 24))


def test_the_map_screen_goes_through_the_turns() -> None:
    engine = FakeEngine()
    engine.enqueue(PLAN)
    app = scripted_app(engine, ["plan", "code"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        await pilot.press("f3")
        await until(pilot, lambda: isinstance(app.screen, MapScreen))
        panel = app.screen.query_one(MapPanel)
        assert "code" in str(panel.border_title)
        await pilot.press("left_square_bracket")
        assert "plan" in str(panel.border_title)
        await pilot.press("escape")
        assert app.screen is app.main

    drive(app, scenario)


def test_figures_read_well() -> None:
    assert [figures.milliseconds(ms) for ms in (0.44, 112.4, 1849, 125_000, -5)] == ["0.4 ms", "112 ms", "1.8 s", "125 s", "-5.0 ms"]
    assert [figures.size(n) for n in (0, 98_362_432, 1_234_000_000)] == ["0 B", "98 MB", "1.2 GB"]
    assert figures.bar(0.0001, 10) == "▏" and figures.bar(1, 10) == "█" * 10 and figures.bar(0, 10) == ""
