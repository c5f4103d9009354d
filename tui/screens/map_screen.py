"""The cell map on the whole screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer

from relaylite.terminal_text import one_line
from relaylite.tui.conversation import TurnRecord
from relaylite.tui.widgets.inspector.map_panel import MapPanel


class MapScreen(Screen[None]):
    """One turn's map; [ and ] go to the turn before and after."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f3,q", "app.pop_screen", "Back"),
        Binding("left_square_bracket", "turn(-1)", "Turn before"),
        Binding("right_square_bracket", "turn(1)", "Turn after"),
    ]

    def __init__(
        self, turns: list[TurnRecord], record: TurnRecord | None, piece: Callable[[int], str], color_of: Callable[[str], str]
    ) -> None:
        super().__init__()
        self._turns, self._piece, self._color_of = turns, piece, color_of
        self._place = turns.index(record) if record in turns else len(turns) - 1

    def compose(self) -> ComposeResult:
        yield MapPanel(self._piece, self._color_of, id="full-map")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self._show()
        self.query_one(MapPanel).view.focus()

    def action_turn(self, step: int) -> None:
        self._place = max(0, min(self._place + step, len(self._turns) - 1))
        self._show()

    def tell(self, text: str, seconds: float) -> None:
        """Say something in the map's frame for some seconds."""
        panel = self.query_one(MapPanel)
        panel.border_subtitle = one_line(text, 90)
        self.set_timer(seconds, lambda: setattr(panel, "border_subtitle", ""))

    def _show(self) -> None:
        self.query_one(MapPanel).show(self._turns[self._place] if self._turns else None)
