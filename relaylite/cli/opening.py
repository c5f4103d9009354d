"""Opening a model for a command: find or fetch the file, load it, show how far that is."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from relaylite.cli.interrupts import Work, held
from relaylite.cli.terminal import Output
from relaylite.settings.settings import Settings

if TYPE_CHECKING:
    from relaylite.api import Relay
    from relaylite.engine.engine import Engine

Model = TypeVar("Model")


def open_relay(settings: Settings, output: Output, *, verbose: bool = False) -> AbstractContextManager[Relay]:
    """A `Relay` as the settings say, closed at the end.

    Ctrl-C and SIGTERM end opening at once: what was fetched is kept for next time, nothing else is written.
    """

    def load(path: Path, on_progress: Callable[[float], None]) -> Relay:
        from relaylite.api import Relay

        return Relay(path, on_progress=on_progress, **settings.relay_options())

    return held(_loaded(settings, output, load, verbose=verbose))


def open_engine(settings: Settings, output: Output, *, n_ctx: int, verbose: bool = False) -> AbstractContextManager[Engine]:
    """A bare engine for measuring, in the same way; `n_ctx` where the settings name no context."""

    def load(path: Path, on_progress: Callable[[float], None]) -> Engine:
        from relaylite.engine.engine import Engine
        from relaylite.engine.options import EngineOptions

        options = EngineOptions(**{"n_ctx": n_ctx, **settings.engine_options()}, on_progress=on_progress)
        return Engine.open(path, options)

    engine = _loaded(settings, output, load, verbose=verbose)
    for warning in engine.info.warnings:
        output.notice(warning)
    return held(engine)


def _loaded(settings: Settings, output: Output, load: Callable[[Path, Callable[[float], None]], Model], *, verbose: bool) -> Model:
    """What `load` makes of the model file, with its progress shown."""
    _route_logs(verbose)
    opened: list[Model] = []

    def work(post: Callable[[Callable[[], None]], None]) -> None:
        from relaylite.gguf.catalog import resolve_model

        path = resolve_model(settings.model, lambda *step: post(lambda: output.download(*step)))
        post(output.end_progress)

        def on_progress(fraction: float) -> None:
            says = f"loading {path.name}: {fraction:.0%}" if fraction < 1 else f"checking {path.name}"
            post(lambda: output.status(says))

        opened.append(load(path, on_progress))

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
