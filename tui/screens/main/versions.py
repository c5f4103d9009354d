"""Actions on what was said before: undo, redo, and going from one version of a message or an answer to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaylite.tui.screens.main.desk import Desk

if TYPE_CHECKING:
    from relaylite.chain.conversation import Conversation
    from relaylite.tui.engine.reports import Place


def undo(desk: Desk) -> None:
    if not desk.refuses_change():
        desk.engine.change(lambda conversation: conversation.undo())


def redo(desk: Desk) -> None:
    if not desk.refuses_change():
        desk.engine.change(lambda conversation: conversation.redo())


def step(desk: Desk, version: tuple[int, int], place: Place, wish: str) -> None:
    """Show the version before or after the one that is shown at `place`."""
    number, n_versions = version
    target = number + (1 if wish == "newer" else -1)
    if not 0 <= target < n_versions or desk.refuses_change():
        return

    def choose(conversation: Conversation) -> None:
        conversation.choose(place, target)

    desk.engine.change(choose, place)
