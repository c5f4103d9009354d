"""The cell map: layers up, token positions across, each cell prefix, relayed, recomputed or new.

In colour a character shows two rows of bins as half blocks; without colour one row, as signs. A bin of several cells is the
mean of their colours. The cursor (arrows, mouse) names one token and layer; `CursorMoved` says which.
"""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from relaylite.metrics import CellMap
from relaylite.tui import look
from relaylite.tui.widgets.inspector.cell_picture import Picture, draw


class CellMapView(Widget, can_focus=True):
    """Draws one CellMap. `cursor_position` and `cursor_layer` are the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1, 0)", "Token", show=False),
        Binding("right", "move(1, 0)", "Token", show=False),
        Binding("up", "move(0, 1)", "Layer", show=False),
        Binding("down", "move(0, -1)", "Layer", show=False),
        Binding("pageup", "move(-100, 0)", "Back 100", show=False),
        Binding("pagedown", "move(100, 0)", "On 100", show=False),
        Binding("home", "edge(0)", "First", show=False),
        Binding("end", "edge(1)", "Last", show=False),
        Binding("plus,equals_sign,z", "zoom(2)", "Zoom in"),
        Binding("minus,x", "zoom(-2)", "Zoom out"),
    ]

    class CursorMoved(Message):
        def __init__(self, position: int, layer: int) -> None:
            super().__init__()
            self.position, self.layer = position, layer

    def __init__(self, *, classes: str) -> None:
        super().__init__(classes=classes)
        self._cells: CellMap | None = None
        self._picture: Picture | None = None
        self._window = (0, 0)  # positions shown
        self.cursor_position = self.cursor_layer = 0

    @property
    def cells(self) -> CellMap | None:
        return self._cells

    @property
    def window(self) -> tuple[int, int]:
        """Positions `[start, end)` that are shown."""
        return self._window

    def show(self, cells: CellMap | None) -> None:
        self._cells = cells if cells is not None and cells.cells.size else None
        n_layer, n = self._cells.cells.shape if self._cells is not None else (0, 0)
        self._window = (0, n)
        self.cursor_position, self.cursor_layer = max(0, min(self.cursor_position, n - 1)), max(0, min(self.cursor_layer, n_layer - 1))
        self._redraw()

    def on_resize(self) -> None:
        self._redraw()

    def _redraw(self) -> None:
        self._picture = None
        self._draw()
        self.refresh()

    def _draw(self) -> None:
        """Make the picture if the widget has a size. If it has none yet, `render_line` asks again when it has."""
        if self._picture is None and self._cells is not None and self.size.width > 0 and self.size.height > 0:
            self._picture = draw(self._cells.cells, self.size.height * self._per_character, self.size.width, *self._window)

    # -- cursor ------------------------------------------------------------------------------------------------------

    def action_move(self, positions: int, layers: int) -> None:
        self.set_cursor(self.cursor_position + positions, self.cursor_layer + layers)

    def action_edge(self, last: int) -> None:
        if self._cells is not None:
            self.set_cursor((self._cells.cells.shape[1] - 1) * last, self.cursor_layer)

    def set_cursor(self, position: int, layer: int) -> None:
        """Move the cursor, within the map; the window follows it."""
        if self._cells is None:
            return
        n_layer, n = self._cells.cells.shape
        self.cursor_position, self.cursor_layer = max(0, min(position, n - 1)), max(0, min(layer, n_layer - 1))
        start, end = self._window
        if not start <= self.cursor_position < end:
            self._set_window(self.cursor_position - (end - start) // 2, end - start)
        self.refresh()
        self.post_message(self.CursorMoved(self.cursor_position, self.cursor_layer))

    def action_zoom(self, factor: int) -> None:
        """Show half as many positions around the cursor, or twice as many."""
        start, end = self._window
        length = (end - start) // factor if factor > 0 else (end - start) * -factor
        self._set_window(self.cursor_position - length // 2, length)
        self.post_message(self.CursorMoved(self.cursor_position, self.cursor_layer))

    def _set_window(self, start: int, length: int) -> None:
        if self._cells is None:
            return
        n = self._cells.cells.shape[1]
        length = max(min(n, 8), min(length, n))
        start = max(0, min(start, n - length))
        self._window = (start, start + length)
        self._redraw()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._point_at(event.x, event.y)

    def on_click(self, event: events.Click) -> None:
        self._point_at(event.x, event.y)

    def _point_at(self, x: int, y: int) -> None:
        picture = self._picture
        if picture is None:
            return
        column = min(x // self._stretch, len(picture.x) - 2)
        row = min(y * self._per_character // self._rise, len(picture.y) - 2)
        self.set_cursor(int(picture.x[column]), int(picture.y[row + 1]))

    # -- drawing -----------------------------------------------------------------------------------------------------

    @property
    def _stretch(self) -> int:
        """Characters that show one bin: more than one where few positions are shown."""
        return max(1, self.size.width // (len(self._picture.x) - 1)) if self._picture is not None else 1

    @property
    def _per_character(self) -> int:
        """Rows that one character shows."""
        return 1 if self.app.no_color else 2

    @property
    def _rise(self) -> int:
        """Rows that show one bin: more than one where few layers are shown."""
        return max(1, self.size.height * self._per_character // len(self._picture.shares)) if self._picture is not None else 1

    @property
    def column_positions(self) -> list[int]:
        """The first position that each character column shows."""
        return np.repeat(self._picture.x[:-1], self._stretch).tolist() if self._picture is not None else []

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Rows that show each layer once, if there is room."""
        layers = self._cells.cells.shape[0] if self._cells is not None else 2
        return -(-layers // self._per_character)

    def render_line(self, y: int) -> Strip:
        self._draw()
        picture, width = self._picture, self.size.width
        if picture is None:
            text = "No prompt has been placed yet." if y == 0 else ""
            return Strip([Segment(text[:width].ljust(width), self.rich_style)], width)
        segments = self._signs(picture, y) if self.app.no_color else self._half_blocks(picture, y)
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def _cursor_cell(self, picture: Picture) -> tuple[int, int]:
        return picture.row_of(self.cursor_layer) * self._rise, picture.column_of(self.cursor_position) * self._stretch

    def _signs(self, picture: Picture, y: int) -> list[Segment]:
        place = y // self._rise
        if place >= len(picture.shares):
            return []
        signs = np.array([look.CELL_KINDS[kind][2] for kind in range(4)])[picture.kinds[place]]
        signs[picture.is_mixed[place]] = look.MIXED_SIGN
        signs = signs.repeat(self._stretch)
        row, column = self._cursor_cell(picture)
        if row != y:
            return [Segment("".join(signs), self.rich_style)]
        head, tail = "".join(signs[:column]), "".join(signs[column + 1 :])
        return [Segment(head, self.rich_style), Segment("╋", self.rich_style + Style(reverse=True)), Segment(tail, self.rich_style)]

    def _half_blocks(self, picture: Picture, y: int) -> list[Segment]:
        n_rows = len(picture.shares)
        upper_bin, lower_bin = 2 * y // self._rise, (2 * y + 1) // self._rise
        if upper_bin >= n_rows:
            return []
        upper = self._colors(picture.shares[upper_bin])
        lower = (
            self._colors(picture.shares[lower_bin])
            if lower_bin < n_rows
            else np.broadcast_to(np.array(self.background_colors[1].rgb), upper.shape)
        )
        row, column = self._cursor_cell(picture)
        marked = column if row // 2 == y else -1
        pairs = np.concatenate([upper, lower], axis=1).repeat(self._stretch, axis=0)
        changes = np.flatnonzero(np.any(np.diff(pairs, axis=0), axis=1)) + 1
        cuts = sorted({0, *changes.tolist(), *([marked, marked + 1] if marked >= 0 else []), len(pairs)})
        segments = []
        for start, end in pairwise(cuts):
            sign = "▀"
            style = Style(color=_rich(pairs[start, :3]), bgcolor=_rich(pairs[start, 3:]))
            if start == marked:
                sign, style = "╋", Style(color=RichColor.from_rgb(0, 0, 0), bgcolor=RichColor.from_rgb(255, 80, 80), bold=True)
            segments.append(Segment(sign * (end - start), style))
        return segments

    def _colors(self, shares: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
        """RGB of each bin of a row, uint8 `[columns, 3]`: the mean of its cells' colours, recomputed ones counting more."""
        variables = self.app.theme_variables
        kinds = np.array([Color.parse(variables[f"map-{name}"]).rgb for _, name, _ in look.CELL_KINDS.values()], np.float32)
        weights = shares.copy()
        weights[:, CellMap.RECOMPUTED] = np.sqrt(shares[:, CellMap.RECOMPUTED])  # so that a few recomputed cells in a large bin are seen
        weights /= weights.sum(axis=1, keepdims=True)
        return (weights @ kinds).round().astype(np.uint8)


def _rich(rgb: npt.NDArray[np.uint8]) -> RichColor:
    return RichColor.from_rgb(*(int(value) for value in rgb))
