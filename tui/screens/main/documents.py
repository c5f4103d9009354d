"""Actions on conversations and files: begin, open, name, save, load, export; code and pictures. Nothing is overwritten unasked."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from relaylite.errors import RelayliteError
from relaylite.tui import files
from relaylite.tui.screens.dialog import PathDialog
from relaylite.tui.screens.main.desk import Desk
from relaylite.tui.screens.overwrite_dialog import OverwriteDialog
from relaylite.tui.screens.sessions_dialog import NameDialog, SessionsDialog


def new(desk: Desk) -> None:
    if not desk.refuses():
        desk.engine.clear()


def sessions(desk: Desk) -> None:
    def take(name: str | None) -> None:
        if name is not None and name != desk.state.session:
            desk.engine.open_session(name)

    if not desk.refuses():
        desk.app.push_screen(SessionsDialog(desk.state.session, desk.engine.rename_session), take)


def rename(desk: Desk) -> None:
    def take(name: str | None) -> None:
        if name is not None and name != desk.state.session:
            desk.engine.rename_session(name)

    if not desk.refuses_change():
        desk.app.push_screen(NameDialog(desk.state.session), take)


def save(desk: Desk) -> None:
    if not desk.refuses():
        _ask_path(desk, "Save conversation", Path("conversation.json"), partial(_unless_there, desk, None, desk.engine.save))


def load(desk: Desk) -> None:
    if not desk.refuses():
        _ask_path(desk, "Load conversation", Path("conversation.json"), desk.engine.load)


def export(desk: Desk) -> None:
    _ask_path(desk, "Export as Markdown", Path("conversation.md"), partial(export_to, desk))


def export_to(desk: Desk, path: Path) -> None:
    state = desk.state
    write(desk, files.markdown_of(state.conversation.rounds, state.info.name if state.info else "", state.policy.label), path)


def picture(desk: Desk) -> None:
    _ask_path(desk, "Save a picture of the screen", Path("relaylite.svg"), partial(save_picture, desk))


def save_picture(desk: Desk, path: Path) -> None:
    write(desk, desk.app.export_screenshot(title="relaylite", simplify=True), path, is_compared=False)


def ask_and_write(desk: Desk, title: str, path: Path, text: str) -> None:
    """Ask where `text` goes, and write it there."""
    _ask_path(desk, title, path, partial(write, desk, text))


def write(desk: Desk, text: str, path: Path, *, is_compared: bool = True, then: Callable[[], None] = lambda: None) -> None:
    """Write `text`, asking first if there is something else at `path`; with a comparison, if wished. `then` follows once it is there."""

    def write_now(path: Path) -> None:
        try:
            files.write_text(path, text)
        except RelayliteError as error:
            desk.app.notify(str(error), title="Failed", severity="error")
        else:
            desk.app.notify(f"Saved to {path}")
            then()

    _unless_there(desk, text if is_compared else None, write_now, path)


def _unless_there(desk: Desk, text: str | None, then: Callable[[Path], None], path: Path) -> None:
    """Do `then` with `path`; if there is something, only if the user wants it overwritten."""

    def take(wants: bool | None) -> None:
        if wants:
            then(path)

    if path.exists() and not path.is_dir():
        desk.app.push_screen(OverwriteDialog(path, text), take)
    else:
        then(path)


def _ask_path(desk: Desk, title: str, path: Path, then: Callable[[Path], None]) -> None:
    def take(chosen: Path | None) -> None:
        if chosen is not None:
            then(chosen)

    desk.app.push_screen(PathDialog(title, path), take)
