"""`Desk`: what the actions of the main screen work with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from relaylite.tui.engine.thread import EngineThread
from relaylite.tui.run_state import RunState
from relaylite.tui.screens.main.parts import Parts

if TYPE_CHECKING:
    from relaylite.tui.app import RelayApp


@dataclass(frozen=True, slots=True)
class Desk:
    """The app has dialogs, notices and the clipboard; the engine does the work."""

    app: RelayApp
    engine: EngineThread
    state: RunState
    parts: Parts

    def refuses(self) -> bool:
        """Whether agents are at work, so that the action has to wait; says so."""
        is_busy = self.state.is_busy or self.state.is_measuring
        if is_busy:
            self.app.notify("Not while the agents are at work; Esc stops them.", severity="warning")
        return is_busy
