"""`RelayApp`: the app around the main screen. Owns the engine's thread, carries its reports to the screen, quits cleanly."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import signal
import time
from collections.abc import Iterable
from functools import partial
from queue import Empty
from typing import ClassVar

from rich.console import RenderableType
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.css.query import NoMatches
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.theme import Theme
from textual.timer import Timer
from textual.widget import MountError

from relaylite.settings.settings import Settings
from relaylite.terminal_text import fit_for_terminal
from relaylite.tui import failures, files, look
from relaylite.tui.commands import COMMANDS
from relaylite.tui.engine.reports import Report, joined
from relaylite.tui.engine.thread import EngineThread
from relaylite.tui.files import History
from relaylite.tui.frugal import be_frugal, forget_screen
from relaylite.tui.mends import mend_textual
from relaylite.tui.run_state import RunState
from relaylite.tui.screens.dialog import Dialog
from relaylite.tui.screens.main import choosing
from relaylite.tui.screens.main.screen import MainScreen
from relaylite.tui.screens.map_screen import MapScreen

UPDATES_PER_SECOND = 20
UI_SHARE = 0.18  # of the time that drawing may take while text streams; dearer updates come less often
SLOWEST_UPDATE_S = 0.3
GC_THRESHOLD = 50_000  # collections of young objects pause the screen; with frozen start-up objects and this they are rare and short
CLOSE_TIMEOUT_S = 3.0
QUIT_AGAIN_S = 2.0
ENDINGS = (signal.SIGTERM, signal.SIGHUP)
BY_SIGNAL = 128  # and the number of the signal: exit codes

log = logging.getLogger(__name__)


class RelayApp(App[None]):
    """`engine` opens models through its opener; tests give it one with a scripted engine."""

    CSS_PATH = "app.tcss"
    TITLE = "relaylite"
    ENABLE_COMMAND_PALETTE = True
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (40, "-narrow"), (96, "-medium"), (120, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (16, "-normal"), (54, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", "Quit", show=False, priority=True),
        Binding("ctrl+c", "interrupt", "Copy or quit", show=False),
        Binding("ctrl+p", "command_palette", "Commands", show=False, priority=True),
    ]

    def __init__(self, settings: Settings, engine: EngineThread, state: RunState, history: History) -> None:
        super().__init__()
        mend_textual()
        be_frugal()
        forget_screen()
        self.settings = settings
        self.engine = engine
        self.state, self.conversation = state, state.conversation
        self.main = MainScreen(self, engine, state, history)
        self.failure = ""  # what ended the app, in one line; the log has the traceback
        self._drain_timer: Timer | None = None
        self._interrupted_at = -math.inf  # never
        self._gc_threshold = gc.get_threshold()
        self._updated_at = self._ui_time = 0.0
        self.register_theme(look.DARK)
        self.register_theme(look.LIGHT)
        wanted = settings.tui.theme or files.kept_theme()
        self.theme = wanted if wanted in self.available_themes else look.DARK.name
        self.replaced_keys = {str(name): str(keys) for name, keys in settings.tui.keys.items()}
        self.set_keymap(self.replaced_keys)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return look.VARIABLE_DEFAULTS

    def get_default_screen(self) -> Screen[None]:
        return self.main

    def on_mount(self) -> None:
        for number in ENDINGS:
            asyncio.get_running_loop().add_signal_handler(number, self.terminate, number)
        self.engine.start()
        choosing.open_model(self.main.desk, self.settings.model)
        self._drain_timer = self.set_interval(1 / UPDATES_PER_SECOND, self._drain)
        self.theme_changed_signal.subscribe(self, self._keep_theme)
        self._gc_threshold = gc.get_threshold()
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD, 20, 50)

    def _keep_theme(self, theme: Theme) -> None:
        """A theme that was chosen here is that of the next start, unless the settings name one."""
        files.keep_theme(theme.name)
        if self.settings.tui.theme:
            self.notify(f"tui.theme in your settings is {self.settings.tui.theme}, which the next start takes.")

    async def _drain(self) -> None:
        """Show what the engine reported since the last time."""
        now, ui_time = time.monotonic(), time.thread_time()
        passed = now - self._updated_at
        if passed < SLOWEST_UPDATE_S and ui_time - self._ui_time > UI_SHARE * passed:
            return
        self._updated_at, self._ui_time = now, ui_time
        waiting: list[Report] = []
        while True:
            try:
                waiting.append(self.engine.reports.get_nowait())
            except Empty:
                break
        try:
            for report in joined(waiting):
                await self.main.view.show(report)
            self.main.view.tick()
        except (NoMatches, MountError):
            if self.is_running:
                raise  # else the screen was taken down while a report was on its way

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """What is said to the user is text: never markup, and never a command to the terminal. It lies over nothing."""
        text = fit_for_terminal(message)
        super().notify(text, title=title, severity=severity, timeout=timeout, markup=False)
        if not self.is_running or not self.screen_stack:
            return
        self.main.parts.notices.say(text, severity, timeout)
        if isinstance(self.screen, Dialog | MapScreen):
            self.screen.tell(text, timeout or self.NOTIFICATION_TIMEOUT)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        if screen is self.main:
            for command in COMMANDS:
                yield SystemCommand(command.title, command.about, partial(self.main.action_command, command.name))
        yield SystemCommand("Theme", "Choose among dark, light and other themes", self.action_change_theme)
        yield SystemCommand("Quit", "Stop what runs and leave", self.action_quit)

    def action_interrupt(self) -> None:
        """Ctrl+C: copy what is selected; else stop what runs; twice within two seconds: quit."""
        if selection := self.screen.get_selected_text():
            self.copy_to_clipboard(selection)
            self.notify("Copied.", timeout=2)
            return
        now = time.monotonic()
        if now - self._interrupted_at < QUIT_AGAIN_S:
            self.exit()
            return
        self._interrupted_at = now
        if self.state.is_working:
            self.engine.cancel()
        self.notify("Press Ctrl+C again to quit.", timeout=QUIT_AGAIN_S)

    def terminate(self, number: int) -> None:
        """SIGTERM, or SIGHUP, which says that the terminal is gone: leave as Ctrl+Q does.

        An exception from a signal handler would end one of the app's tasks only.
        """
        self.exit(return_code=BY_SIGNAL + number)

    async def action_quit(self) -> None:
        self.exit()

    def _handle_exception(self, error: Exception) -> None:
        if failures.comes_too_late(error, self.is_running):
            log.info("too late: %s", failures.name_of(error))
            return
        log.error("the app failed", exc_info=error)
        self.failure = self.failure or failures.name_of(error)
        super()._handle_exception(error)

    def panic(self, *renderables: RenderableType) -> None:
        """Called by Textual where one of its threads failed; what it would print goes to the log."""
        self.failure = self.failure or "the thread that reads the terminal failed"
        super().panic(*renderables)

    def on_unmount(self) -> None:
        if self._drain_timer is not None:
            self._drain_timer.stop()
        self.engine.cancel()
        gc.unfreeze()
        gc.set_threshold(*self._gc_threshold)
