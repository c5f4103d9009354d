"""The side panel: figures, cell map and history of one conversation."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import VerticalScroll

from relaylite.engine.interface import Memory
from relaylite.tui.conversation import Conversation, TurnRecord
from relaylite.tui.widgets.inspector.history_plot import HistoryPlot
from relaylite.tui.widgets.inspector.map_panel import MapPanel
from relaylite.tui.widgets.inspector.metrics_panel import MetricsPanel


class Inspector(VerticalScroll, can_focus=False):
    """Shows one turn: the latest, or the one that is selected in the transcript."""

    def __init__(self, conversation: Conversation, piece: Callable[[int], str], color_of: Callable[[str], str]) -> None:
        super().__init__(id="inspector")
        self._conversation, self._piece, self._color_of = conversation, piece, color_of
        self.record: TurnRecord | None = None

    def compose(self) -> ComposeResult:
        yield MetricsPanel(self._conversation)
        yield MapPanel(self._piece, self._color_of, id="mini-map")
        yield HistoryPlot(self._conversation)

    def show(self, record: TurnRecord | None) -> None:
        """Show that turn's figures and cells."""
        self.record = record
        self.query_one(MetricsPanel).show_turn(record)
        self.query_one(MapPanel).show(record)
        self.query_one(HistoryPlot).redraw()

    def refresh_figures(self) -> None:
        """The figures of a turn that is being written have changed."""
        if self.display:
            self.query_one(MetricsPanel).show_turn(self.record)

    def show_memory(self, memory: Memory) -> None:
        self.query_one(MetricsPanel).show_memory(memory)
