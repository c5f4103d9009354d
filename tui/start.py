"""From settings to a running app: the real opener, the terminal, the end."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from relaylite import paths
from relaylite.agents import choose_agents, load_agents
from relaylite.errors import UsageError
from relaylite.policies import parse_policy
from relaylite.tui.app import CLOSE_TIMEOUT_S, RelayApp
from relaylite.tui.backend import OnProgress, Progress, RelayLike
from relaylite.tui.files import History
from relaylite.tui.terminal import owned_terminal

if TYPE_CHECKING:
    from relaylite.config import Settings

LOG_NAME = "tui.log"


class ModelOpener:
    """Opens real models with the settings' values."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def locate(self, model: str, on_progress: OnProgress) -> str:
        from relaylite.catalog import resolve_model

        def fetched(name: str, done: int, total: int) -> None:
            on_progress(Progress(f"fetching {name}", done / total if total else None))

        return str(resolve_model(model, fetched))

    def open(self, path: str, on_progress: OnProgress) -> RelayLike:
        from relaylite.api import Relay

        settings = self._settings
        values = {"n_ctx": settings.ctx, "n_threads": settings.threads, "n_gpu_layers": settings.gpu_layers, "store_bytes": settings.store.ram}
        return Relay(
            path,
            policy=parse_policy(settings.policy, settings.fidelity),
            sampling=settings.sampling(),
            on_progress=lambda fraction: on_progress(Progress("loading", fraction)),
            **{name: value for name, value in values.items() if value is not None},
        )


def start(settings: Settings) -> int:
    """Run the app in this terminal; exit code 0 when the user quits."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("the terminal app needs a terminal for input and output; use --plain, or `relaylite run`")
    known = load_agents(settings.agents_file)
    agents = choose_agents(settings.agents, known)
    policy = parse_policy(settings.policy, settings.fidelity)
    with owned_terminal(paths.logs_folder() / LOG_NAME):
        app = RelayApp(settings, ModelOpener(settings), known, agents, policy, History(paths.history_file()))
        app.run(mouse=settings.tui.mouse)
        has_ended = app.engine.close(CLOSE_TIMEOUT_S)
        code = app.return_code or 0
    if not has_ended:  # a native call that does not come back must not keep the process alive
        os._exit(code)
    return code
