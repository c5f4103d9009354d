"""Which exceptions of widgets end the app, and how one is named in one line."""

from __future__ import annotations

from types import TracebackType

from textual.app import ScreenStackError
from textual.css.query import NoMatches
from textual.dom import DOMNode
from textual.widget import MountError
from textual.worker import WorkerFailed

from relaylite.terminal_text import one_line


def comes_too_late(error: BaseException, is_running: bool) -> bool:
    """Whether it was raised by work for a screen that is being taken down, alone or with the app (`is_running`).

    Children of the screen are gone then, and nobody waits for the work.
    """
    if isinstance(error, WorkerFailed):
        error = error.error
    if not isinstance(error, NoMatches | MountError | ScreenStackError):
        return False
    if not is_running:
        return True
    nodes = [node for node in _selves(error.__traceback__) if isinstance(node, DOMNode)]
    return any(node._pruning or not (node.is_attached and node.is_running) for node in nodes[-1:])


def name_of(error: BaseException) -> str:
    """Kind and words of an error, for people."""
    if isinstance(error, WorkerFailed):
        error = error.error
    return one_line(f"{type(error).__name__}: {error}", 200)


def _selves(traceback: TracebackType | None) -> list[object]:
    """What the methods of a traceback were called on, outermost first."""
    found = []
    while traceback is not None:
        found.append(traceback.tb_frame.f_locals.get("self"))
        traceback = traceback.tb_next
    return found
