"""`run_app` in `__init__.py`: the terminal app, made with Textual: chain agents, watch them, and see what was reused.

It works a model through `Relay` and `Chain`, and reads plain values of other packages: settings, sessions, catalogue, policies.
Importing this package does not import Textual; `run_app` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaylite.chain.attachments import Attachment
    from relaylite.chain.session import Session
    from relaylite.settings.settings import Settings

__all__ = ["run_app"]


def run_app(settings: Settings, *, session: Session | None = None, files: Sequence[Attachment] = ()) -> int:
    """Show the app until the user quits; the process's exit code.

    `session` keeps the conversation, and may have one to go on with; `files` go with the first message.
    Raises UsageError where there is no terminal.
    """
    from relaylite.tui.start import start

    return start(settings, session, files)
