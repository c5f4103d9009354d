"""Blocks of the transcript: a message of the user, and an agent's turn."""

from __future__ import annotations

from typing import ClassVar, Literal

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from relaylite.terminal_text import fit_for_terminal
from relaylite.tui import look
from relaylite.tui.conversation import FINISHED, RoundRecord, TurnRecord
from relaylite.tui.text import figures
from relaylite.tui.text.corrections import fit_with_line_ends
from relaylite.tui.text.search import places_of
from relaylite.tui.widgets.transcript.answer import CURRENT_HIT_STYLE, HIT_STYLE, Answer
from relaylite.tui.widgets.transcript.prompt_parts import PromptParts

MESSAGE_LINES, MESSAGE_CHARACTERS = 12, 1000  # of a long message that are shown until it is unfolded
MESSAGE_LIMIT = 40_000  # characters shown when it is unfolded; the chain has all of it

Wish = Literal["copy", "edit", "retry", "measure", "compare", "map", "copy_code", "write_code", "extend", "older", "newer"]


class Block(Vertical, can_focus=True):
    """What can be selected in the transcript: a message or a turn. `Asked` goes to the screen for what needs the chain."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "fold", "Fold"),
        Binding("c", "ask('copy')", "Copy"),
        Binding("e", "ask('edit')", "Edit"),
        Binding("up,k", "app.focus_previous", "Up", show=False),
        Binding("down,j", "app.focus_next", "Down", show=False),
        Binding("left", "ask('older')", "Version before", show=False),
        Binding("right", "ask('newer')", "Version after", show=False),
    ]

    class Asked(Message):
        def __init__(self, block: Block, wish: Wish) -> None:
            super().__init__()
            self.block, self.wish = block, wish

    class Typed(Message):
        """Text that was typed or pasted here and is no key of a block."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Unfolded(Message):
        """The block shows more than before; its beginning should be seen."""

        def __init__(self, block: Block) -> None:
            super().__init__()
            self.block = block

    def on_key(self, event: events.Key) -> None:
        if event.is_printable and event.character and not self._bindings.key_to_bindings.get(event.key):
            event.stop()
            self.post_message(self.Typed(event.character))

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self.post_message(self.Typed(fit_with_line_ends(event.text)))

    def action_ask(self, wish: Wish) -> None:
        self.post_message(self.Asked(self, wish))


class MessageBlock(Block):
    """What the user wrote; a long message is folded."""

    def __init__(self, round: RoundRecord) -> None:
        super().__init__(classes="message")
        self.round = round
        self.is_folded = True
        self._hit, self._hit_line = "", -1

    @property
    def source(self) -> str:
        """The text that copying gives."""
        return self.round.task

    def compose(self) -> ComposeResult:
        yield Static(self._title(), classes="head")
        yield Static(self._content(), classes="body")

    def _title(self) -> Content:
        files = f"  with {', '.join(self.round.files)}" if self.round.files else ""
        return Content.assemble(
            ("▪ ", "$primary"),
            ("you", "bold $primary"),
            (version_of(self.round), "$primary"),
            (fit_for_terminal(files), "$muted"),
        )

    def refresh_title(self) -> None:
        self.query_one(".head", Static).update(self._title())

    def _content(self) -> Content:
        text = self.round.task
        if not self.is_folded:
            more = len(text) - MESSAGE_LIMIT
            note = f"\n… {figures.count(more)} more characters" if more > 0 else ""
            return Content.assemble(self._marked(text[:MESSAGE_LIMIT]), (note, "$muted"))
        lines = text[:MESSAGE_CHARACTERS].splitlines()[:MESSAGE_LINES]
        shown = "\n".join(lines)
        more = len(text) - len(shown)
        note = f"\n▶ {figures.count(more)} more characters; Enter unfolds" if more > 1 else ""
        return Content.assemble(self._marked(shown), (note, "$muted"))

    def mark(self, text: str, line: int) -> int:
        """Show where `text` stands, stronger on that line, "" for nowhere; the row at which a search should look."""
        if (text, line) != (self._hit, self._hit_line):
            self._hit, self._hit_line = text, line
            self.query_one(".body", Static).update(self._content())
        return 1 + max(0, line)

    def _marked(self, text: str) -> Content:
        shown = []
        for number, line in enumerate(text.splitlines()):
            content = Content(fit_for_terminal(line))
            for start, end in places_of(self._hit, content.plain) if self._hit else ():
                content = content.stylize(CURRENT_HIT_STYLE if number == self._hit_line else HIT_STYLE, start, end)
            shown.append(content)
        return Content("\n").join(shown)

    async def action_fold(self) -> None:
        self.is_folded = not self.is_folded
        self.query_one(".body", Static).update(self._content())
        if not self.is_folded:
            self.post_message(self.Unfolded(self))


class TurnHead(Static):
    """Title line of a turn; a click folds the turn."""


class TurnBlock(Block):
    """An agent's turn: title, the prompt's parts on request, and the answer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "toggle_parts", "Prompt"),
        Binding("r", "ask('retry')", "Retry"),
        Binding("g", "ask('extend')", "Go on", show=False),
        Binding("m", "ask('measure')", "Measure"),
        Binding("x", "ask('compare')", "Compare", show=False),
        Binding("v", "ask('map')", "Map"),
        Binding("b", "ask('copy_code')", "Copy code", show=False),
        Binding("w", "ask('write_code')", "Write code", show=False),
    ]

    def __init__(self, record: TurnRecord, color: str, colors: dict[str, str]) -> None:
        super().__init__(classes="turn")
        self.record, self._color, self._colors = record, color, colors
        self.is_folded = False

    @property
    def source(self) -> str:
        """The text that copying gives."""
        return self.record.text

    def compose(self) -> ComposeResult:
        yield TurnHead(self._title(), classes="head")
        yield Answer(self.record.text)

    def on_mount(self) -> None:
        self.styles.border_left = ("outer" if self.app.no_color else "wide", self._css_color())

    def _css_color(self) -> str:
        name = self._color.removeprefix("$")
        return self.app.theme_variables.get(name, self._color if self._color.startswith("#") else "#888888")

    @property
    def answer(self) -> Answer | None:
        return next(iter(self.query(Answer)), None)

    def mark(self, text: str, line: int) -> int:
        """Show where `text` stands, "" for nowhere; the row of the block at which that line of its source is."""
        answer = self.answer
        if answer is None:
            return 0
        answer.mark(text, line)
        return answer.virtual_region.y + answer.row_of(line)

    @property
    def shows_parts(self) -> bool:
        return bool(self.query(PromptParts))

    def refresh_title(self) -> None:
        self.query_one(TurnHead).update(self._title())

    def write(self, text: str) -> None:
        """Show text that came; `record.text` has it already."""
        answer = self.answer
        if answer is not None:
            answer.write(text)

    def settle(self) -> None:
        """Show the record as it is now, finished or edited."""
        answer = self.answer
        if answer is not None:
            answer.settle(self.record.text)
        self.refresh_title()

    async def action_fold(self) -> None:
        self.is_folded = not self.is_folded
        answer = self.answer
        if self.is_folded and answer is not None:
            await answer.remove()
        elif not self.is_folded and answer is None:
            await self.mount(Answer(self.record.text))
        self.refresh_title()

    async def action_toggle_parts(self) -> None:
        if self.shows_parts:
            await self.query(PromptParts).remove()
        else:
            await self.mount(PromptParts(self.record, self._colors), after=self.query_one(TurnHead))
            self.post_message(self.Unfolded(self))
        self.refresh_title()

    async def on_click(self, event: events.Click) -> None:
        if isinstance(event.widget, TurnHead):
            await self.action_fold()

    def _title(self) -> Content:
        record = self.record
        state = record.state
        fold = "▶" if self.is_folded else "▼"
        facts = " · ".join(self._facts())
        return Content.assemble(
            (f"{fold} ", "$muted"),
            (record.agent, f"bold {self._color}"),
            (version_of(record), self._color),
            (" (edited)" if record.was_edited else "", "$warning"),
            (f" {look.STATE_SIGNS[state]}" + (f" {state}" if state != "done" else ""), look.STATE_COLORS[state]),
            (f" {self._warning()}" if self._warning() else "", "$warning"),
            (f"  {facts}" if facts else "", "$muted"),
        )

    def _facts(self) -> list[str]:
        record, metrics = self.record, self.record.metrics
        if metrics is None:
            return []
        facts = [f"TTFT {figures.milliseconds(metrics.ttft_ms)}"]
        full = record.full_prefill
        if full is not None and metrics.ttft_ms > 0 and metrics.prefix_tokens + metrics.span_tokens:
            facts.append(f"{full[0] / metrics.ttft_ms:.1f}× {'measured' if full[1] else 'est.'}")
        facts.append(f"prompt reuse {figures.percent(metrics.prompt_reuse)}")
        if record.state in FINISHED:
            facts.append(f"{figures.count(record.n_tokens)} tokens")
        return facts

    def _warning(self) -> str:
        """What is wrong with the answer; it stands before the figures, which may be cut."""
        record, metrics = self.record, self.record.metrics
        if metrics is None or record.state not in FINISHED or record.finish_reason != "length":
            return ""
        return "cut: the context is full" if metrics.is_context_full else "cut at max tokens"


def version_of(item: RoundRecord | TurnRecord) -> str:
    """Such as ` ‹2/3›`; "" if there is only one."""
    number, n_versions = item.version
    return f" ‹{number + 1}/{n_versions}›" if n_versions > 1 else ""


AnyBlock = MessageBlock | TurnBlock
