"""A text in the user's own editor. The only door to other programs on the terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from textual.app import App, SuspendNotSupported

from relaylite.errors import UsageError
from relaylite.tui.frugal import forget_screen

FALLBACKS = ("nano", "vi")


def editor_command() -> list[str]:
    """What $VISUAL or $EDITOR say, else an editor that is here. Raises UsageError without one."""
    for variable in ("VISUAL", "EDITOR"):
        if command := shlex.split(os.environ.get(variable, "")):
            return command
    for name in FALLBACKS:
        if shutil.which(name):
            return [name]
    raise UsageError("no editor is known here; set EDITOR")


def edit_outside(app: App[None], text: str) -> str:
    """`text` as the user left it in the editor, which has the terminal meanwhile. Raises UsageError in one line if that fails."""
    command = editor_command()
    with tempfile.TemporaryDirectory(prefix="relaylite-") as folder:
        path = Path(folder) / "text.md"
        path.write_text(text, encoding="utf-8", errors="replace", newline="")
        try:
            with app.suspend(), Path(os.ttyname(0)).open("r+b", buffering=0) as terminal:
                code = subprocess.run([*command, str(path)], stdin=terminal, stdout=terminal, stderr=terminal, check=False).returncode
            edited = path.read_bytes().decode("utf-8", "replace")
        except (OSError, SuspendNotSupported) as error:
            raise UsageError(f"{command[0]} cannot edit the text: {error}") from error
        finally:
            forget_screen()
    if code != 0:
        raise UsageError(f"{command[0]} ended with code {code}: the text stays as it was")
    return edited if text.endswith("\n") else edited.removesuffix("\n")
