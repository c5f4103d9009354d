"""Time to first token of every turn: a bar for what it took, a mark for what a full prefill would have taken.

The gap between bar and mark is what taking over rows saved. ● is measured, ○ estimated.
"""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from relaylite.tui.conversation import Conversation, TurnRecord
from relaylite.tui.text import figures

AXIS_WIDTH = 8


def plot(turns: list[TurnRecord], width: int, height: int) -> list[list[tuple[str, str]]]:
    """Lines of (text, style) runs: `height` rows of columns, one turn each, the latest that fit."""
    step = 2 if len(turns) * 2 <= width else 1
    shown = [turn for turn in turns if turn.metrics is not None][-(width // step) :]
    top = max([1e-9, *(_highest(turn) for turn in shown)])
    rows: list[list[tuple[str, str]]] = []
    for row in range(height):
        label = (
            figures.milliseconds(top)
            if row == 0
            else figures.milliseconds(top / 2)
            if row == height // 2 and height > 3
            else "0"
            if row == height - 1
            else ""
        )
        cells: list[tuple[str, str]] = [(label.rjust(AXIS_WIDTH - 2) + (" ┤" if label else " │"), "$muted")]
        cells += [_cell(turn, top, height - 1 - row, height, step) for turn in shown]
        rows.append(cells)
    return rows


def _highest(turn: TurnRecord) -> float:
    assert turn.metrics is not None
    return max(turn.metrics.ttft_ms, turn.full_prefill[0] if turn.full_prefill else 0.0)


def _cell(turn: TurnRecord, top: float, level: int, height: int, step: int) -> tuple[str, str]:
    """One column of one row; `level` counts rows from the bottom."""
    assert turn.metrics is not None
    pad = " " * (step - 1)
    eighths = max(1, round(turn.metrics.ttft_ms / top * height * 8)) - level * 8
    if eighths > 0:
        return pad + " ▁▂▃▄▅▆▇█"[min(eighths, 8)], "$map-reused"
    full = turn.full_prefill
    if full is not None and min(int(full[0] / top * height), height - 1) == level:
        return pad + ("●" if full[1] else "○"), "$accent"
    return pad + " ", ""


class HistoryPlot(Static):
    """The plot of the whole conversation."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__(id="history")
        self._conversation = conversation
        self.border_title = "TTFT  █ took  ○ full (est.)  ● measured"

    def on_mount(self) -> None:
        self.redraw()

    def on_resize(self) -> None:
        self.redraw()

    def redraw(self) -> None:
        turns = [turn for turn in self._conversation.turns() if turn.metrics is not None]
        width, height = self.size.width - AXIS_WIDTH, self.size.height
        if not turns or width < 4 or height < 2:
            self.update(Content.styled("A bar for each turn will stand here.", "$muted"))
            return
        self.update(Content("\n").join([Content.assemble(*row) for row in plot(turns, width, height)]))
