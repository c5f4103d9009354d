"""From settings to a running app, and its end."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

from relaylite import paths
from relaylite.chain.agents import agents_of, load_agents
from relaylite.chain.session import Session, go_on_with
from relaylite.errors import UsageError
from relaylite.reuse.policies import parse_policy
from relaylite.tui.app import CLOSE_TIMEOUT_S, RelayApp
from relaylite.tui.engine.keeping import Keeper
from relaylite.tui.engine.opener import ModelOpener
from relaylite.tui.engine.thread import EngineThread
from relaylite.tui.files import History
from relaylite.tui.run_state import RunState
from relaylite.tui.terminal import owned_terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaylite.chain.attachments import Attachment
    from relaylite.settings.settings import Settings

LOG_NAME = "tui.log"


def start(settings: Settings, session: Session | None, files: Sequence[Attachment]) -> int:
    """Run the app in this terminal; exit code 0 when the user quits, 143 after SIGTERM."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("the terminal app needs a terminal for input, output and errors; use --plain, or `relaylite run`")
    known = load_agents(settings.agents_file)
    agents = agents_of(settings)
    policy = parse_policy(settings.policy, settings.fidelity)
    keeper = Keeper(session, keeps_new=settings.keep, go_on=partial(go_on_with, settings=settings))
    with owned_terminal(paths.logs_folder() / LOG_NAME):
        engine = EngineThread(ModelOpener(settings), agents, policy, keeper)
        state = RunState(agents, policy, known, tuple(files))
        app = RelayApp(settings, engine, state, History(paths.history_file()))
        before = signal.getsignal(signal.SIGTERM)
        app.run(mouse=settings.tui.mouse)
        signal.signal(signal.SIGTERM, before)  # the app's own handler went with its loop
        has_ended = engine.close(CLOSE_TIMEOUT_S)
        code = app.return_code or 0
    if not has_ended:  # a native call that does not come back must not keep the process alive
        os._exit(code)
    return code
