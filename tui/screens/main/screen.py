"""`MainScreen`: lays out the parts, binds the keys, and forwards: reports to the view, keys and clicks to the actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Footer, Input

from relaylite.tui.commands import COMMANDS
from relaylite.tui.engine.thread import EngineThread
from relaylite.tui.files import History
from relaylite.tui.run_state import RunState
from relaylite.tui.screens.main import choosing, editing, looking, running
from relaylite.tui.screens.main.acts import ACTS
from relaylite.tui.screens.main.desk import Desk
from relaylite.tui.screens.main.notices import Notices
from relaylite.tui.screens.main.parts import make_parts
from relaylite.tui.screens.main.report_view import ReportView
from relaylite.tui.widgets.chain_strip import ChainStrip
from relaylite.tui.widgets.prompt_input import PromptInput
from relaylite.tui.widgets.search_bar import SearchBar
from relaylite.tui.widgets.transcript.blocks import Block, TurnBlock
from relaylite.tui.widgets.transcript.welcome import Sample

if TYPE_CHECKING:
    from relaylite.tui.app import RelayApp


class MainScreen(Screen[None]):
    """`parts` are its widgets, `view` shows reports in them, `desk` is what its actions work with."""

    BINDINGS: ClassVar[list[BindingType]] = [command.binding for command in COMMANDS if command.keys]

    def __init__(self, app: RelayApp, engine: EngineThread, state: RunState, history: History) -> None:
        super().__init__()
        self.parts = make_parts(state, engine.piece, history)
        self.view = ReportView(state, self.parts, Notices(app, state, self.parts))
        self.desk = Desk(app, engine, state, self.parts)

    def compose(self) -> ComposeResult:
        parts = self.parts
        yield parts.top
        yield parts.chain
        with Horizontal(id="middle"):
            yield parts.transcript
            yield parts.inspector
        yield parts.search
        yield parts.notices
        yield parts.status
        yield parts.picker
        yield parts.input
        yield Footer(show_command_palette=True, compact=True)

    def on_mount(self) -> None:
        self.parts.input.focus()

    def on_resize(self) -> None:
        """Figures that took the conversation's place on a narrow screen leave it when the screen was wider meanwhile."""
        if self.has_class("-wide") or self.has_class("-medium"):
            self.remove_class("-panel-alone")

    def action_command(self, name: str) -> None:
        """Do what the command of that name does."""
        ACTS[name](self.desk)

    @on(Block.Typed)
    def _typed(self, event: Block.Typed) -> None:
        """Text that was typed or pasted on a block belongs into the input."""
        self.parts.input.focus()
        self.parts.input.insert(event.text)

    @on(PromptInput.Left)
    def _go_to_newest(self) -> None:
        blocks = self.parts.transcript.blocks
        samples = self.query(Sample)
        if blocks and self.parts.transcript.display:
            blocks[-1].focus()
        elif samples and self.parts.transcript.display:
            samples.first().focus()
        else:
            self.focus_next()

    @on(Sample.Chosen)
    def _sample_chosen(self, event: Sample.Chosen) -> None:
        self.parts.input.take_up(event.task)
        self.parts.input.focus()

    @on(PromptInput.Sent)
    async def _send(self, event: PromptInput.Sent) -> None:
        await running.send(self.desk, event.text)

    @on(TurnBlock.Asked)
    def _asked(self, event: TurnBlock.Asked) -> None:
        editing.act_on(self.desk, event.block, event.wish)

    @on(ChainStrip.Asked)
    def _strip_asked(self, event: ChainStrip.Asked) -> None:
        if event.index is None:
            choosing.policy(self.desk)
        else:
            choosing.agents(self.desk, event.index)

    @on(events.DescendantFocus)
    def _selected(self, event: events.DescendantFocus) -> None:
        if isinstance(event.widget, TurnBlock) and event.widget.record.metrics is not None:
            self.parts.inspector.show(event.widget.record)

    @on(SearchBar.Asked)
    async def _search(self, event: SearchBar.Asked) -> None:
        await looking.find(self.desk, event.text, event.step)

    @on(Input.Submitted, "#search")
    def _ignore(self, event: Input.Submitted) -> None:
        event.stop()
