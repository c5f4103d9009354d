"""The cell map with what is needed to read it: origins above, legend and the named cell below."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate

import numpy as np
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from relaylite.events import PromptPart
from relaylite.metrics import CellMap
from relaylite.terminal_text import one_line
from relaylite.tui import look
from relaylite.tui.conversation import TurnRecord
from relaylite.tui.text import figures
from relaylite.tui.widgets.inspector.cell_map import CellMapView
from relaylite.tui.widgets.transcript.prompt_parts import origin_of

ORIGIN_SIGNS = {"template": "·", "system": "s", "user": "u", "file": "f", "glue": "g"}


def token_name(piece: str) -> str:
    """A token's text in quotes, with its line ends and spaces to be seen."""
    return f"‘{one_line(piece.replace(chr(10), '⏎').replace(' ', '␣'), 24)}’" if piece else "control token"


def cell_name(cells: CellMap, position: int, layer: int) -> str:
    """What became of one cell, and how far its token deviated."""
    kind = look.CELL_KINDS[int(cells.cells[layer, position])][0]
    deviation = float(cells.deviation[position]) if position < len(cells.deviation) else float("nan")
    measured = "not measured" if np.isnan(deviation) else f"{deviation:.4f}"
    return f"{kind} · deviation {measured}"


class MapPanel(Vertical):
    """Shows one turn's prompt. `piece` gives a token's text, `color_of` an agent's colour."""

    def __init__(self, piece: Callable[[int], str], color_of: Callable[[str], str], *, id: str) -> None:
        super().__init__(id=id)
        self._piece, self._color_of = piece, color_of
        self._parts: tuple[PromptPart, ...] = ()
        self._ends: list[int] = []
        self.border_title = "Cell map"

    def compose(self) -> ComposeResult:
        yield Static(classes="origins")
        yield CellMapView(classes="map")
        yield Static(classes="readout")
        yield Static(self._legend(), classes="legend")

    @property
    def view(self) -> CellMapView:
        return self.query_one(CellMapView)

    @property
    def readout(self) -> str:
        """What the line below the map says."""
        return self._readout().plain

    def show(self, record: TurnRecord | None) -> None:
        """Show that turn's prompt, or nothing."""
        self._parts = record.parts if record is not None else ()
        self._ends = list(accumulate(len(part.tokens) for part in self._parts))
        self.border_title = f"Cell map: {record.agent}, message {record.round + 1}" if record is not None else "Cell map"
        self.view.show(record.cells if record is not None else None)
        self._refresh()

    def on_cell_map_view_cursor_moved(self) -> None:
        self._refresh()

    def on_resize(self) -> None:
        self.call_after_refresh(self._refresh)

    def _refresh(self) -> None:
        self.query_one(".origins", Static).update(self._origins())
        self.query_one(".readout", Static).update(self._readout())
        self.query_one(".legend", Static).update(self._legend())

    def _part_at(self, position: int) -> PromptPart | None:
        place = bisect_right(self._ends, position)
        return self._parts[place] if place < len(self._parts) else None

    def _token_at(self, position: int) -> str:
        """The name of the token there, "" behind the last part. Equal parts stand in many prompts, so a part is known by its place."""
        place = bisect_right(self._ends, position)
        if place >= len(self._parts):
            return ""
        tokens = self._parts[place].tokens
        return token_name(self._piece(tokens[position - (self._ends[place] - len(tokens))]))

    def _origins(self) -> Content:
        """A letter for each column: whose text stands there."""
        return Content.assemble(*(self._origin_sign(self._part_at(position)) for position in self.view.column_positions))

    def _origin_sign(self, part: PromptPart | None) -> tuple[str, str]:
        if part is None:
            return " ", ""
        if part.kind == "answer":
            return part.source[:1].upper() or "A", f"bold {self._color_of(part.source)}"
        return ORIGIN_SIGNS[part.kind], "$muted"

    def _readout(self) -> Content:
        cells = self.view.cells
        if cells is None:
            return Content("")
        n_layer, n = cells.cells.shape
        position, layer = self.view.cursor_position, self.view.cursor_layer
        part = self._part_at(position)
        start, end = self.view.window
        window = "" if (start, end) == (0, n) else f" · showing {figures.count(start)}–{figures.count(end)}"
        return Content.assemble(
            (f"token {figures.count(position)}/{figures.count(n)} {self._token_at(position)}", "bold"),
            (f" · layer {layer}/{n_layer} · ", "$muted"),
            cell_name(cells, position, layer),
            (f" · {origin_of(part)}" if part is not None else "", "$muted"),
            (window, "$muted"),
        )

    def _legend(self) -> Content:
        runs: list[tuple[str, str]] = []
        for name, variable, sign in look.CELL_KINDS.values():
            runs += [(sign if self.app.no_color else "██", f"$map-{variable}"), (f" {name}  ", "$muted")]
        if self.app.no_color:
            runs += [(look.MIXED_SIGN, ""), (" partly recomputed", "$muted")]
        return Content.assemble(*runs)
