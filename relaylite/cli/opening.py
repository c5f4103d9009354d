"""Opening a model for a command: find or fetch the file, load it, show how far that is."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from relaylite.cli.interrupts import Work
from relaylite.cli.terminal import Output
from relaylite.config import Settings

if TYPE_CHECKING:
    from relaylite.api import Relay


def open_relay(settings: Settings, output: Output, *, verbose: bool = False) -> Relay:
    """A `Relay` as the settings say. Ctrl-C and SIGTERM end it at once: what was fetched is kept for next time, nothing else is written."""
    _route_logs(verbose)
    opened: list[Relay] = []

    def work(post: Callable[[Callable[[], None]], None]) -> None:
        from relaylite.api import Relay
        from relaylite.catalog import resolve_model

        path = resolve_model(settings.model, lambda *step: post(lambda: output.progress(*step)))
        show = lambda done: post(lambda: output.status(f"loading {path.name}: {done:.0%}"))  # noqa: E731
        opened.append(Relay(path, on_progress=show, **settings.relay_options()))

    for show in Work(work):
        show()
    output.status("")
    return opened[0]


def _route_logs(verbose: bool) -> None:
    """Native logs to stderr if wanted, else nowhere."""
    logger = logging.getLogger("relaylite")
    logger.handlers = [logging.StreamHandler(sys.stderr) if verbose else logging.NullHandler()]
    logger.setLevel(logging.INFO if verbose else logging.WARNING)
    logger.propagate = False
