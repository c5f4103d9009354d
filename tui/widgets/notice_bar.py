"""Notices, in lines of their own above the status line: they make room for themselves and lie over nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass

from textual.content import Content
from textual.notifications import SeverityLevel
from textual.widgets import Static

from relaylite.terminal_text import fit_for_terminal

SHOWN_AT_ONCE = 3
STAYS_S = 5.0
STYLES: dict[SeverityLevel, tuple[str, str]] = {"information": ("▸", "$foreground"), "warning": ("▲", "$warning"), "error": ("×", "$error")}


@dataclass(frozen=True, slots=True)
class _Notice:
    text: str
    severity: SeverityLevel
    until: float


class NoticeBar(Static):
    """Shows the latest notices until their time is over, which counts only while nothing lies over this screen."""

    def __init__(self) -> None:
        super().__init__(id="notices")
        self._notices: list[_Notice] = []
        self.display = False

    def say(self, text: str, severity: SeverityLevel, seconds: float | None) -> None:
        stays = STAYS_S if seconds is None else seconds
        self._notices = [each for each in self._notices if each.text != text]
        self._notices.append(_Notice(text, severity, time.monotonic() + stays))
        self._show()
        self.set_timer(stays + 0.1, self._expire)

    def _expire(self) -> None:
        if not self.screen.is_current:
            self.set_timer(1.0, self._expire)
            return
        now = time.monotonic()
        left = [each for each in self._notices if each.until > now]
        if len(left) < len(self._notices):
            self._notices = left
            self._show()

    def on_click(self) -> None:
        """Read: they go."""
        self._notices = []
        self._show()

    def _show(self) -> None:
        lines = []
        for notice in self._notices[-SHOWN_AT_ONCE:]:
            sign, style = STYLES[notice.severity]
            lines.append(Content.styled(f" {sign} {fit_for_terminal(notice.text)}", style))
        self.display = bool(lines)
        self.update(Content("\n").join(lines))
