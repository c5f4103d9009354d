"""Actions on conversations and files: begin, open, name, save, load, export; a picture of the screen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from relaylite.errors import RelayliteError
from relaylite.terminal_text import one_line
from relaylite.tui import files
from relaylite.tui.screens.dialog import ChoiceDialog, PathDialog
from relaylite.tui.screens.main.desk import Desk
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
        _ask_path(desk, "Save conversation", Path("conversation.json"), partial(_unless_taken, desk, desk.engine.save))


def load(desk: Desk) -> None:
    if not desk.refuses():
        _ask_path(desk, "Load conversation", Path("conversation.json"), desk.engine.load)


def export(desk: Desk) -> None:
    _ask_path(desk, "Export as Markdown", Path("conversation.md"), partial(_unless_taken, desk, partial(export_to, desk)))


def export_to(desk: Desk, path: Path) -> None:
    state = desk.state
    _write(desk, path, files.markdown_of(state.conversation.rounds, state.info.name if state.info else "", state.policy.label))


def picture(desk: Desk) -> None:
    _ask_path(desk, "Save a picture of the screen", Path("relaylite.svg"), partial(_unless_taken, desk, partial(save_picture, desk)))


def save_picture(desk: Desk, path: Path) -> None:
    _write(desk, path, desk.app.export_screenshot(title="relaylite", simplify=True))


def _write(desk: Desk, path: Path, text: str) -> None:
    try:
        files.write_text(path, text)
    except RelayliteError as error:
        desk.app.notify(str(error), title="Failed", severity="error")
    else:
        desk.app.notify(f"Saved to {path}")


def _unless_taken(desk: Desk, write: Callable[[Path], None], path: Path) -> None:
    """Write to `path`; if there is a file already, only if the user says so."""

    def take(chosen: str | None) -> None:
        if chosen == "replace":
            write(path)

    if not path.exists():
        write(path)
        return
    choices = [("leave", "Leave it", "Nothing is written"), ("replace", "Replace it", "What the file holds now is lost")]
    desk.app.push_screen(ChoiceDialog(f"There is a file {one_line(str(path), 60)} already", choices, "leave"), take)


def _ask_path(desk: Desk, title: str, path: Path, then: Callable[[Path], None]) -> None:
    def take(chosen: Path | None) -> None:
        if chosen is not None:
            then(chosen)

    desk.app.push_screen(PathDialog(title, path), take)
