"""Text that is redrawn often: only the lines that changed are written to the terminal.

Textual writes all of a widget that is refreshed, also what stands there already; a line over ssh feels that.
"""

from __future__ import annotations

from typing import Any, Self

from textual.content import Content
from textual.geometry import Region
from textual.widgets import Static

from relaylite.tui.text.changes import changed_region


class QuietStatic(Static):
    """`show` instead of `update`. Its lines must not be wider than the widget: each is one row."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._shown: list[Content] = []
        self._changed: list[Region] = []

    def show(self, content: Content) -> None:
        """Show `content`. The widget is laid out anew only if it has more or fewer lines than before."""
        lines, before = content.split("\n", allow_blank=True), self._shown
        if len(lines) != len(before):
            self._shown = lines
            self.update(content)
            return
        changes = (changed_region(new, old, y) for y, (new, old) in enumerate(zip(lines, before, strict=True)))
        self._changed = [region for region in changes if region is not None]
        if self._changed:
            self._shown = lines
            self.update(content, layout=False)
            self._changed = []

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        return super().refresh(*(regions or self._changed), repaint=repaint, layout=layout, recompose=recompose)
