"""Actions on files: conversations begun, saved, loaded and exported; a picture of the screen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from relaylite.errors import RelayliteError
from relaylite.tui import files
from relaylite.tui.screens.dialog import PathDialog
from relaylite.tui.screens.main.desk import Desk


def new(desk: Desk) -> None:
    if not desk.refuses():
        desk.engine.clear()


def save(desk: Desk) -> None:
    if not desk.refuses():
        _ask_path(desk, "Save conversation", Path("conversation.json"), desk.engine.save)


def load(desk: Desk) -> None:
    if not desk.refuses():
        _ask_path(desk, "Load conversation", Path("conversation.json"), desk.engine.load)


def export(desk: Desk) -> None:
    _ask_path(desk, "Export as Markdown", Path("conversation.md"), partial(export_to, desk))


def export_to(desk: Desk, path: Path) -> None:
    state = desk.state
    _write(desk, path, files.markdown_of(state.conversation.rounds, state.info.name if state.info else "", state.policy.label))


def picture(desk: Desk) -> None:
    _ask_path(desk, "Save a picture of the screen", Path("relaylite.svg"), partial(save_picture, desk))


def save_picture(desk: Desk, path: Path) -> None:
    _write(desk, path, desk.app.export_screenshot(title="relaylite", simplify=True))


def _write(desk: Desk, path: Path, text: str) -> None:
    try:
        files.write_text(path, text)
    except RelayliteError as error:
        desk.app.notify(str(error), title="Failed", severity="error")
    else:
        desk.app.notify(f"Saved to {path}")


def _ask_path(desk: Desk, title: str, path: Path, then: Callable[[Path], None]) -> None:
    def take(chosen: Path | None) -> None:
        if chosen is not None:
            then(chosen)

    desk.app.push_screen(PathDialog(title, path), take)
