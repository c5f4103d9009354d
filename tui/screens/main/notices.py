"""`Notices`: what the app tells the user besides what it shows, each in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaylite.terminal_text import one_line
from relaylite.tui import look
from relaylite.tui.engine import reports
from relaylite.tui.run_state import RunState
from relaylite.tui.screens.main.parts import MainParts

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

    from relaylite.tui.app import RelayApp


class Notices:
    """Failures, and notices that are shown once for a model."""

    def __init__(self, app: RelayApp, state: RunState, parts: MainParts) -> None:
        self._app, self._state, self._parts = app, state, parts
        self._shown: set[str] = set()

    def forget(self) -> None:
        """Another model was opened: what was said once may be said again."""
        self._shown = set()

    def once(self, text: str, severity: SeverityLevel = "warning") -> None:
        """Whether opening the model or a run said so; why it cannot relay was said when it was opened."""
        refusal = self._state.relay_refusal
        if text not in self._shown and not (refusal and refusal in text):
            self._shown.add(text)
            self.say(text, severity, timeout=10)

    def say(self, text: str, severity: SeverityLevel = "information", timeout: float | None = None) -> None:
        self._app.notify(text, severity=severity, timeout=timeout)

    def ring(self) -> None:
        """Ring the terminal's bell, unless the settings say no."""
        if self._app.settings.tui.bell:
            self._app.bell()

    def complain(self, reason: str) -> None:
        """Something failed, or was stopped; the app lives on."""
        status = self._parts.status
        if reason == reports.STOPPED:
            self.say(reason, timeout=3)
            status.show_turn(self._state.conversation.last)
        else:
            self._app.notify(reason, title="Failed", severity="error", timeout=12)
            status.show_text(f"{look.STATE_SIGNS['failed']} {one_line(reason, 300)}", "$error")
