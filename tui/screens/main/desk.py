"""`Desk`: what the actions of the main screen work with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from relaylite.tui.commands import COMMANDS
from relaylite.tui.engine.thread import EngineThread
from relaylite.tui.run_state import RunState
from relaylite.tui.screens.main.parts import MainParts

if TYPE_CHECKING:
    from relaylite.tui.app import RelayApp


@dataclass(frozen=True, slots=True)
class Desk:
    """The app has dialogs, notices and the clipboard; the engine does the work."""

    app: RelayApp
    engine: EngineThread
    state: RunState
    parts: MainParts

    def refuses(self) -> bool:
        """Whether agents are at work, so that the action has to wait; says so."""
        is_busy = self.state.is_busy or self.state.is_measuring
        if is_busy:
            self.app.notify("Not while the agents are at work; Esc stops them.", severity="warning")
        return is_busy

    def key_of(self, name: str) -> str:
        """The key of that command, as people write it."""
        return next(command.key(self.app.replaced_keys) for command in COMMANDS if command.name == name)

    def refuses_change(self) -> bool:
        """Whether the conversation cannot be changed now; says why."""
        if not self.refuses() and self.state.is_read_only:
            self.app.notify(f"Session {self.state.session} is open in another relaylite: here it can only be read.", severity="warning")
            return True
        return self.state.is_busy or self.state.is_measuring
