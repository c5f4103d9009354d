"""The terminal app: chain agents, watch them, see what was reused. Knows relaylite's public API only.

Importing this package does not import Textual; `run_app` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relaylite.config import Settings

__all__ = ["run_app"]


def run_app(settings: Settings) -> int:
    """Show the app until the user quits; the process's exit code. Raises UsageError where there is no terminal."""
    from relaylite.tui.start import start

    return start(settings)
