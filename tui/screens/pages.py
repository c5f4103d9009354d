"""Two pages to read: the keys and the settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import wrap

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from relaylite.settings.settings import Settings, describe, shown
from relaylite.terminal_text import one_line
from relaylite.tui.commands import COMMANDS
from relaylite.tui.screens.dialog import Dialog

KEY_WIDTH = 9
TEXT_WIDTH = 56  # beside the keys, also on a screen of 80 columns
INPUT_KEYS = (
    ("Enter", "Send; on an empty input go on after a pause, a stop or a failure"),
    ("Ctrl+J", "New line (also Shift+Enter, Alt+Enter)"),
    ("↑ ↓", "In the first or last line: messages sent before"),
    ("@file", 'Attach a file: @notes.md, or @"my notes.md"; ↑ ↓ and Tab or Enter take one that is offered, Esc leaves them'),
    ("Tab", "To the newest block, or a task to try, and back"),
    ("Ctrl+C", "Copy the selection; stop; twice: quit (as Ctrl+Q)"),
)
BLOCK_KEYS = (
    ("↑ ↓", "Block before and after (also K, J)"),
    ("Enter", "Fold or unfold"),
    ("P", "Unfold the prompt: what was relayed, from where"),
    ("C E R", "Copy; edit; answer again from this agent on"),
    ("M V", "Measure a full prefill; show this turn's cell map"),
    ("X", "Compare with what another policy gives: where the answers part"),
    ("← →", "The version before and after, where there are several: ‹2/3›"),
    ("G", "Let an answer go on that was cut"),
    ("B W", "Copy a code block; write one to a file"),
    ("others", "What you type or paste goes to the input"),
)
MAP_KEYS = (
    ("← → ↑ ↓", "Token before and after, layer up and down (also the mouse)"),
    ("Home End", "First and last token; PgUp and PgDn go 100 on"),
    ("+ -", "Zoom in and out (also Z, X)"),
    ("[ ]", "The turn before, the turn after"),
    ("Esc", "Back (also F3, Q)"),
)
DIALOG_KEYS = (
    ("Esc", "Leave without a change"),
    ("Ctrl+D", "Apply, or overwrite"),
    ("Ctrl+G", "Edit the text in $EDITOR"),
    ("K", "Agents: write those that were edited into your agents.toml"),
    ("Find line", "Enter or ↓ next place, ↑ the one before, Esc closes it"),
)
SIGNS = (
    ("» › ·", "Reads all answers before it, the last one, the task only"),
    ("◔ ◑ ◕ ●", "Reusing, repairing, reading what is new, writing"),
    ("✓ ■ × ‖", "Done, stopped, failed; the chain pauses after it"),
    ("s u f g P", "Above the map: instructions, your message, file, between answers; a capital: that agent's answer"),
    ("· ░ ▓ █", "Cells without colour: prefix, relayed, recomputed, new"),
)


def page(lines: Iterable[Content]) -> ComposeResult:
    """Lines that scroll."""
    with VerticalScroll():
        yield Static(Content("\n").join(list(lines)))


class HelpPage(Dialog[None]):
    """Keys by where they work."""

    title_text = "Keys"

    def __init__(self, replaced: Mapping[str, str]) -> None:
        """`replaced`: keys by command, as in the settings."""
        super().__init__()
        self._replaced = replaced

    def compose(self) -> ComposeResult:
        with self.frame():
            yield from page(self.lines())

    def lines(self) -> Iterable[Content]:
        everywhere = [(c.key(self._replaced), f"{c.title}: {c.about}") for c in COMMANDS if c.keys]
        yield from self._section("Everywhere", [*everywhere, ("Ctrl+P", "Commands: all of them by name, also those without a key:")])
        yield from self._section("Without a key", ((c.title, c.about) for c in COMMANDS if not c.keys))
        yield from self._section("In the input", INPUT_KEYS)
        yield from self._section("On a block of the transcript", BLOCK_KEYS)
        yield from self._section("In the cell map", MAP_KEYS)
        yield from self._section("In dialogs", DIALOG_KEYS)
        yield from self._section("Signs", SIGNS)

    def _section(self, title: str, rows: Iterable[tuple[str, str]]) -> Iterable[Content]:
        yield Content.styled(title, "bold $primary")
        for key, about in rows:
            first, *rest = wrap(about, TEXT_WIDTH - max(0, len(key) - KEY_WIDTH))
            yield Content.assemble((f"  {key:<{KEY_WIDTH}} ", "bold"), (first, "$foreground"))
            yield from (Content.styled(f"{'':<{KEY_WIDTH + 3}}{line}", "$foreground") for line in rest)
        yield Content("")


class SettingsPage(Dialog[None]):
    """Every setting with its value and where it came from."""

    title_text = "Settings"
    hint = "flag > RELAYLITE_* > ./relaylite.toml > config.toml · Esc leaves"

    def __init__(self, settings: Settings, config_file: str, own: Iterable[str] = ()) -> None:
        """`own`: a line for each agent that has sampling values of its own."""
        super().__init__()
        self._settings, self._config_file, self._own = settings, config_file, own

    def compose(self) -> ComposeResult:
        with self.frame():
            yield from page(self.lines())

    def lines(self) -> Iterable[Content]:
        yield Content.styled(f"Your file: {self._config_file}", "$muted")
        yield from (Content.styled(f"Its own values: {one_line(line, 200)}", "$accent") for line in self._own)
        yield Content("")
        for name, about, _ in describe():
            table, _, field = name.rpartition(".")
            value = getattr(getattr(self._settings, table) if table else self._settings, field)
            source = self._settings.sources.get(name, "default")
            style = "$muted" if source == "default" else "$accent"
            yield Content.assemble((f"{name:<16} ", "bold"), (one_line(shown(name, value), 40), "$foreground"), (f"  {source}", style))
            yield Content.styled(f"{'':<17}{about}", "$muted")
