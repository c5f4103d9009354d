"""What each command of `commands.py` does."""

from __future__ import annotations

from collections.abc import Callable

from relaylite.tui.screens.main import choosing, code, documents, editing, looking, running, versions
from relaylite.tui.screens.main.desk import Desk

ACTS: dict[str, Callable[[Desk], None]] = {
    "cancel": running.cancel,
    "help": looking.keys,
    "toggle_panel": looking.toggle_panel,
    "cell_map": looking.cell_map,
    "agents": choosing.agents,
    "policy": choosing.policy,
    "sampling": choosing.sampling,
    "measure": running.measure_shown,
    "compare": looking.compare_last,
    "model": choosing.model,
    "retry": running.retry_last,
    "retry_round": running.retry_round,
    "edit_message": editing.edit_message,
    "edit_answer": editing.edit_last,
    "copy_answer": editing.copy_last,
    "copy_code": code.copy_last,
    "write_code": code.write_last,
    "editor": editing.edit_outside,
    "search": looking.open_search,
    "undo": versions.undo,
    "redo": versions.redo,
    "extend": running.extend_last,
    "new": documents.new,
    "sessions": documents.sessions,
    "rename": documents.rename,
    "save": documents.save,
    "load": documents.load,
    "export": documents.export,
    "settings": looking.settings,
    "screenshot": documents.picture,
}
