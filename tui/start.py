"""From settings to a running app, and its end."""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from relaylite import paths
from relaylite.chain import sessions
from relaylite.chain.agents import choose_agents, load_agents
from relaylite.errors import RelayliteError, UsageError
from relaylite.reuse.policies import parse_policy
from relaylite.tui.app import CLOSE_TIMEOUT_S, ENDINGS, RelayApp
from relaylite.tui.commands import check_keys
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


def can_show_app() -> bool:
    """Whether the terminal can place text, as TERM says."""
    return os.environ.get("TERM") != "dumb"


def start(settings: Settings, session: str | None, files: Sequence[Attachment]) -> int:
    """Run the app in this terminal; exit code 0 when the user quits, 128 and the number of a signal after SIGTERM or SIGHUP."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()) or not can_show_app():
        raise UsageError("the terminal app needs a terminal for input, output and errors; use --plain, or `relaylite run`")
    check_keys(settings.tui.keys)
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
        name = session or f"rescued-{time.strftime('%Y%m%d-%H%M%S')}"
        if app.failure and session is None:
            engine.keep(partial(sessions.save, name))
        has_ended = engine.close(CLOSE_TIMEOUT_S)
        code = app.return_code or 0
    failure = _words_about(app.failure, name) if app.failure else ""
    if not has_ended:  # a native call that does not come back must not keep the process alive
        if failure:
            sys.stderr.write(f"relaylite: {failure}\n")
            sys.stderr.flush()
        os._exit(code or bool(failure))
    if failure:
        raise RelayliteError(failure)
    return code


def _words_about(failure: str, session: str) -> str:
    """What failed, where there is more about it, and how to go on with the conversation, if it is kept."""
    is_kept = any(each.name == session for each in sessions.sessions())
    advice = f"; go on with: relaylite chat --session {session}" if is_kept else ""
    return f"the app failed ({failure}); {paths.logs_folder() / LOG_NAME} has more{advice}"
