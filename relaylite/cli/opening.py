"""Opening a model for a command: find or fetch the file, load it, show how far that is."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from relaylite.cli.interrupts import Work, held
from relaylite.cli.terminal import Output
from relaylite.settings.settings import Settings

if TYPE_CHECKING:
    from relaylite.api import Relay
    from relaylite.engine.engine import Engine

Model = TypeVar("Model")


def open_relay(settings: Settings, output: Output, *, verbose: bool = False, **more: Any) -> AbstractContextManager[Relay]:
    """A `Relay` as the settings say, closed at the end. `more`: arguments of it that are no settings.

    Ctrl-C and SIGTERM end opening at once: what was fetched is kept for next time, nothing else is written.
    """

    def load(path: Path, shown: _Shown) -> Relay:
        from relaylite.api import Relay

        return Relay(path, on_progress=shown.on_progress, on_notice=shown.on_notice, **settings.relay_options(), **more)

    return held(_loaded(settings, output, load, verbose=verbose))


def open_engine(settings: Settings, output: Output, *, n_ctx: int, verbose: bool = False) -> AbstractContextManager[Engine]:
    """A bare engine for measuring, in the same way; `n_ctx` where the settings name no context."""

    def load(path: Path, shown: _Shown) -> Engine:
        from relaylite.engine.engine import Engine
        from relaylite.engine.options import EngineOptions

        wanted = {"n_ctx": n_ctx, **settings.engine_options()}
        return Engine.open(path, EngineOptions(**wanted, on_progress=shown.on_progress, on_notice=shown.on_notice))

    engine = _loaded(settings, output, load, verbose=verbose)
    for warning in engine.info.warnings:
        output.notice(warning)
    return held(engine)


class _Shown:
    """The line that says how far opening a model is, given to `show`."""

    def __init__(self, name: str, show: Callable[[str], None]) -> None:
        self._name, self._show, self._notice = name, show, ""

    def on_notice(self, text: str) -> None:
        self._notice = text

    def on_progress(self, fraction: float) -> None:
        self._show(self._notice or (f"loading {self._name}: {fraction:.0%}" if fraction < 1 else f"checking {self._name}"))


def _loaded(settings: Settings, output: Output, load: Callable[[Path, _Shown], Model], *, verbose: bool) -> Model:
    """What `load` makes of the model file, with its progress shown."""
    _route_logs(verbose)
    opened: list[Model] = []

    def work(post: Callable[[Callable[[], None]], None]) -> None:
        from relaylite.gguf.catalog import resolve_model

        path = resolve_model(settings.model, lambda *step: post(lambda: output.download(*step)))
        post(output.end_progress)
        opened.append(load(path, _Shown(path.name, lambda says: post(lambda: output.status(says)))))

    for show in Work(work, kept=lambda: "stopped before the model was open; what was fetched of it is kept", tick=output.tick):
        show()
    output.end_progress()
    return opened[0]


def _route_logs(verbose: bool) -> None:
    """Native logs to stderr if wanted, else nowhere."""
    logger = logging.getLogger("relaylite")
    logger.handlers = [logging.StreamHandler(sys.stderr) if verbose else logging.NullHandler()]
    logger.setLevel(logging.INFO if verbose else logging.WARNING)
    logger.propagate = False
