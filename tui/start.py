"""From settings to a running app: the real opener, the terminal, the end."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

from relaylite import paths
from relaylite.chain import sessions
from relaylite.chain.agents import choose_agents, load_agents
from relaylite.errors import UsageError
from relaylite.reuse.policies import parse_policy
from relaylite.tui.app import CLOSE_TIMEOUT_S, RelayApp
from relaylite.tui.engine.opener import OnProgress, Progress, RelayLike
from relaylite.tui.engine.thread import EngineThread
from relaylite.tui.files import History
from relaylite.tui.terminal import owned_terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaylite.chain.attachments import Attachment
    from relaylite.settings.settings import Settings

LOG_NAME = "tui.log"


class ModelOpener:
    """Opens real models with the settings' values."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def locate(self, model: str, on_progress: OnProgress) -> str:
        from relaylite.gguf.catalog import resolve_model

        def fetched(name: str, done: int, total: int) -> None:
            on_progress(Progress(f"fetching {name}", done / total if total else None))

        return str(resolve_model(model, fetched))

    def open(self, path: str, on_progress: OnProgress) -> RelayLike:
        from relaylite.api import Relay

        def loaded(fraction: float) -> None:
            on_progress(Progress("loading", fraction) if fraction < 1 else Progress("checking the loaded model", None))

        return Relay(path, on_progress=loaded, **self._settings.relay_options())


def start(settings: Settings, session: str | None, files: Sequence[Attachment]) -> int:
    """Run the app in this terminal; exit code 0 when the user quits, 143 after SIGTERM."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("the terminal app needs a terminal for input, output and errors; use --plain, or `relaylite run`")
    known = load_agents(settings.agents_file)
    agents = choose_agents(settings.agents, known)
    policy = parse_policy(settings.policy, settings.fidelity)
    saved = sessions.load(session) if session is not None else None
    keep = partial(sessions.save, session) if session is not None else None
    with owned_terminal(paths.logs_folder() / LOG_NAME):
        engine = EngineThread(ModelOpener(settings), agents, policy, saved, keep)
        app = RelayApp(settings, engine, known, agents, policy, History(paths.history_file()), files)
        before = signal.getsignal(signal.SIGTERM)
        app.run(mouse=settings.tui.mouse)
        signal.signal(signal.SIGTERM, before)  # the app's own handler went with its loop
        has_ended = engine.close(CLOSE_TIMEOUT_S)
        code = app.return_code or 0
    if not has_ended:  # a native call that does not come back must not keep the process alive
        os._exit(code)
    return code
