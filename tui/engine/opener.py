"""Finding and opening models for the app, and how far that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from relaylite.api import Relay
    from relaylite.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class Progress:
    """How far opening a model is: 0 to 1, or None where that is not known."""

    stage: str
    fraction: float | None


OnProgress = Callable[[Progress], None]


class Opener(Protocol):
    """Finds and opens models. Called in the engine's thread. What `on_progress` raises ends the call and comes out of it."""

    def locate(self, model: str, on_progress: OnProgress) -> str:
        """The path of the file that `model` names, fetched if need be."""
        ...

    def open(self, path: str, on_progress: OnProgress) -> Relay: ...


class ModelOpener:
    """Opens real models with the settings' values."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def locate(self, model: str, on_progress: OnProgress) -> str:
        from relaylite.gguf.catalog import resolve_model

        def fetched(name: str, done: int, total: int) -> None:
            on_progress(Progress(f"fetching {name}", done / total if total else None))

        return str(resolve_model(model, fetched))

    def open(self, path: str, on_progress: OnProgress) -> Relay:
        from relaylite.api import Relay

        notice = ""

        def noticed(text: str) -> None:
            nonlocal notice
            notice = text

        def loaded(fraction: float) -> None:
            stage = notice or ("loading" if fraction < 1 else "checking the loaded model")
            on_progress(Progress(stage, fraction if stage == "loading" else None))

        return Relay(path, on_progress=loaded, on_notice=noticed, **self._settings.relay_options())
