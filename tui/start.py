"""From settings to a running app, and its end."""

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
from relaylite.tui.app import CLOSE_TIMEOUT_S, ENDINGS, RelayApp
from relaylite.tui.engine.jobs import KeptConversation
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


def start(settings: Settings, session: str | None, files: Sequence[Attachment]) -> int:
    """Run the app in this terminal; exit code 0 when the user quits, 128 and the number of a signal after SIGTERM or SIGHUP."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("the terminal app needs a terminal for input, output and errors; use --plain, or `relaylite run`")
    known = load_agents(settings.agents_file, notify=lambda _: None)  # `chat` said it before the app took the terminal
    agents = choose_agents(settings.agents, known)
    policy = parse_policy(settings.policy, settings.fidelity)
    kept = KeptConversation(sessions.load(session), partial(sessions.save, session)) if session is not None else KeptConversation()
    with owned_terminal(paths.logs_folder() / LOG_NAME):
        engine = EngineThread(ModelOpener(settings), agents, policy, kept)
        state = RunState(tuple(agents), policy, known, tuple(files))
        app = RelayApp(settings, engine, state, History(paths.history_file()))
        before = {number: signal.getsignal(number) for number in ENDINGS}
        app.run(mouse=settings.tui.mouse)
        for number, handler in before.items():
            signal.signal(number, handler)  # the app's own handler went with its loop
        has_ended = engine.close(CLOSE_TIMEOUT_S)
        code = app.return_code or 0
    if not has_ended:  # a native call that does not come back must not keep the process alive
        os._exit(code)
    return code
