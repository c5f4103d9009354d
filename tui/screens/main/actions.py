"""What the user can do on the main screen: one action a command of `commands.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import BindingType
from textual.screen import Screen

from relaylite import paths
from relaylite.chain.agents import Agent
from relaylite.engine.interface import ModelInfo
from relaylite.errors import RelayliteError
from relaylite.reuse.policies import FIDELITIES, POLICIES, Policy, parse_policy
from relaylite.terminal_text import fit_for_terminal
from relaylite.tui import files
from relaylite.tui.commands import COMMANDS
from relaylite.tui.conversation import Conversation, TurnRecord
from relaylite.tui.engine.thread import EngineThread
from relaylite.tui.screens.agents_dialog import AgentsDialog, ChainChoice
from relaylite.tui.screens.dialog import ChoiceDialog, PathDialog, TextDialog
from relaylite.tui.screens.map_screen import MapScreen
from relaylite.tui.screens.model_dialog import ModelDialog
from relaylite.tui.screens.pages import HelpPage, SettingsPage
from relaylite.tui.text import search
from relaylite.tui.widgets.chain_strip import ChainStrip
from relaylite.tui.widgets.inspector.inspector import Inspector
from relaylite.tui.widgets.prompt_input import PromptInput
from relaylite.tui.widgets.search_bar import SearchBar
from relaylite.tui.widgets.status import StatusLine, TopBar
from relaylite.tui.widgets.transcript.blocks import Block, MessageBlock, TurnBlock, Wish
from relaylite.tui.widgets.transcript.transcript import Transcript

if TYPE_CHECKING:
    from relaylite.tui.app import RelayApp

POLICY_ABOUT = {
    "full": "Compute every prompt from nothing: the reference",
    "prefix": "Take over the longest exact prefix, as llama-server does: exact",
    "naive": "Take over prefix and relayed text, repair nothing: fastest, least true",
    "relay:fast": "Relay and repair the fewest cells",
    "relay": "Relay and repair what the new prefix changes: the default",
    "relay:careful": "Relay and repair more cells",
}


class Actions(Screen[None]):
    """The half of the main screen that acts; `MainScreen` is the half that shows."""

    BINDINGS: ClassVar[list[BindingType]] = [command.binding for command in COMMANDS if command.keys]

    app: RelayApp
    engine: EngineThread
    conversation: Conversation
    agents: tuple[Agent, ...]
    policy: Policy
    pauses: frozenset[int]
    info: ModelInfo | None
    current: TurnRecord | None = None
    is_measuring = False
    is_busy: Any
    _hit = 0

    # -- parts of the screen -----------------------------------------------------------------------------------------

    @property
    def top(self) -> TopBar:
        return self.query_one(TopBar)

    @property
    def chain(self) -> ChainStrip:
        return self.query_one(ChainStrip)

    @property
    def transcript(self) -> Transcript:
        return self.query_one(Transcript)

    @property
    def inspector(self) -> Inspector:
        return self.query_one(Inspector)

    @property
    def status(self) -> StatusLine:
        return self.query_one(StatusLine)

    @property
    def input(self) -> PromptInput:
        return self.query_one(PromptInput)

    def block_of(self, record: TurnRecord) -> TurnBlock | None:
        block = self.transcript.block_of(record)
        return block if isinstance(block, TurnBlock) else None

    def begin(self) -> None:
        raise NotImplementedError

    def color_of(self, name: str) -> str:
        raise NotImplementedError

    def refuse_while_busy(self) -> bool:
        """Whether something runs; says so, since the action has to wait."""
        if self.is_busy or self.is_measuring:
            self.notify("Not while the agents are at work; Esc stops them.", severity="warning")
        return bool(self.is_busy or self.is_measuring)

    # -- running -----------------------------------------------------------------------------------------------------

    def action_cancel(self) -> None:
        bar = self.query_one(SearchBar)
        if self.is_busy or self.is_measuring or self.info is None:
            self.engine.cancel()
        elif bar.is_open:
            bar.close()
            self.transcript.clear_mark()
        self.input.focus()

    def next_pause(self, index: int) -> int | None:
        """The first agent from `index` on after which the chain pauses; the last agent's end is no pause."""
        return min((place for place in self.pauses if index <= place < len(self.agents) - 1), default=None)

    def resume(self) -> None:
        """Go on after a pause, a stop or a failure."""
        last = self.conversation.rounds[-1] if self.conversation.rounds else None
        if last is not None and not self.refuse_while_busy():
            self.begin()
            self.engine.resume(self.next_pause(sum(turn.is_kept for turn in last.turns)))

    def action_retry(self) -> None:
        last = self.conversation.last
        if last is not None:
            self.retry(last)

    def action_retry_round(self) -> None:
        if self.conversation.rounds and self.conversation.rounds[-1].turns:
            self.retry(self.conversation.rounds[-1].turns[0])

    def retry(self, record: TurnRecord) -> None:
        """Let that agent, and those after it, answer again."""
        if record.round != self.conversation.rounds[-1].number:
            self.notify("Only the last message's answers can be written again.", severity="warning")
        elif not self.refuse_while_busy():
            if record.is_kept:
                self.engine.drop(record.index)
            self.resume()

    def action_measure(self) -> None:
        record = self.inspector.record or self.conversation.last
        if record is not None:
            self.measure(record)

    def measure(self, record: TurnRecord) -> None:
        if not self.refuse_while_busy():
            self.is_measuring = True
            self.engine.measure(record.round, record.index)

    # -- changing what was said --------------------------------------------------------------------------------------

    def action_edit_message(self) -> None:
        if self.conversation.rounds and not self.refuse_while_busy():
            self.input.give_back(self.conversation.rounds[-1].task)
            self.engine.drop(None)
            self.input.focus()

    def action_edit_answer(self) -> None:
        if (last := self.conversation.last) is not None:
            self.edit(last)

    def edit(self, record: TurnRecord) -> None:
        """Correct an answer; from then on its tokens are computed, not relayed."""
        if self.refuse_while_busy():
            return
        if not record.is_kept:
            self.notify("There is no answer to correct; Ctrl+R lets the agent try again.", severity="warning")
            return

        def take(text: str | None) -> None:
            if text is not None and text != record.text:
                self.engine.edit(record.round, record.index, text)

        note = "What you change is read anew by the next agents instead of being taken over."
        self.app.push_screen(TextDialog(f"Correct {record.agent}'s answer", record.text, note), take)

    def act_on(self, block: Block, wish: Wish) -> None:
        """What a block of the transcript asked for."""
        if wish == "copy":
            self.copy(block.source)
        elif isinstance(block, MessageBlock):
            if wish == "edit" and block.round is self.conversation.rounds[-1]:
                self.action_edit_message()
            else:
                self.notify("Only the last message can be changed.", severity="warning")
        elif isinstance(block, TurnBlock):
            acts = {"edit": self.edit, "retry": self.retry, "measure": self.measure, "map": self.show_map}
            acts[wish](block.record)

    def action_copy_answer(self) -> None:
        if (last := self.conversation.last) is not None:
            self.copy(last.text)

    def copy(self, text: str) -> None:
        self.app.copy_to_clipboard(fit_for_terminal(text))
        self.notify(f"Copied {len(text):,} characters.", timeout=2)

    # -- the chain ---------------------------------------------------------------------------------------------------

    def action_agents(self, selected: int = 0) -> None:
        if not self.refuse_while_busy():
            self.app.push_screen(AgentsDialog(self.agents, self.pauses, self.app.known, selected), self._take_agents)

    async def _take_agents(self, choice: ChainChoice | None) -> None:
        if choice is not None:
            self.agents, self.pauses = choice.agents, choice.pauses
            await self.chain.set_agents(self.agents)
            self.chain.set_pauses(set(self.pauses))
            self.engine.configure(self.agents, self.policy)

    def action_policy(self) -> None:
        names = [name for name in POLICIES if name != "relay"] + [f"relay:{fidelity}".removesuffix(":balanced") for fidelity in FIDELITIES]
        choices = [(name, name, POLICY_ABOUT[name]) for name in names]
        if not self.refuse_while_busy():
            self.app.push_screen(ChoiceDialog("Policy", choices, self.policy.label), self._take_policy)

    def _take_policy(self, name: str | None) -> None:
        if name is not None:
            self.policy = parse_policy(name)
            self.chain.set_policy(self.policy, self.info.relay_refusal if self.info else None)
            self.engine.configure(self.agents, self.policy)

    def action_model(self) -> None:
        if not self.refuse_while_busy():
            self.app.push_screen(ModelDialog(Path(self.info.path).name if self.info else ""), self._take_model)

    def _take_model(self, name: str | None) -> None:
        if name is not None:
            self.info = None
            self.top.show_opening(name)
            self.engine.open(name)

    # -- looking -----------------------------------------------------------------------------------------------------

    def action_help(self) -> None:
        self.app.push_screen(HelpPage(self.app.replaced_keys))

    def action_settings(self) -> None:
        self.app.push_screen(SettingsPage(self.app.settings, str(paths.settings_file())))

    def action_toggle_panel(self) -> None:
        self.toggle_class("-panel")

    def action_cell_map(self) -> None:
        self.show_map(self.inspector.record or self.conversation.last)

    def show_map(self, record: TurnRecord | None) -> None:
        turns = [turn for turn in self.conversation.turns() if turn.cells is not None]
        self.app.push_screen(MapScreen(turns, record, self.engine.piece, self.color_of))

    def action_search(self) -> None:
        self.query_one(SearchBar).open()

    async def find(self, text: str, step: int) -> None:
        """Go to the next place that holds `text`, or the one before; with step 0 to the last one."""
        hits = search.find(self.conversation, text)
        self._hit = (self._hit + step) % len(hits) if step and hits else len(hits) - 1
        self.query_one(SearchBar).show_result(self._hit, len(hits))
        if hits:
            await self.transcript.reveal(hits[self._hit].item, hits[self._hit].line, text)

    # -- files -------------------------------------------------------------------------------------------------------

    def action_new(self) -> None:
        if not self.refuse_while_busy():
            self.engine.clear()

    def action_save(self) -> None:
        if not self.refuse_while_busy():
            self._ask_path("Save conversation", Path("conversation.json"), self.engine.save)

    def action_load(self) -> None:
        if not self.refuse_while_busy():
            self._ask_path("Load conversation", Path("conversation.json"), self.engine.load)

    def action_export(self) -> None:
        self._ask_path("Export as Markdown", Path("conversation.md"), self._export)

    def _export(self, path: Path) -> None:
        document = files.markdown_of(self.conversation.rounds, self.info.name if self.info else "", self.policy.label)
        self._write(path, document)

    def action_screenshot(self) -> None:
        self._ask_path("Save a picture of the screen", Path("relaylite.svg"), self._save_picture)

    def _save_picture(self, path: Path) -> None:
        self._write(path, self.app.export_screenshot(title="relaylite", simplify=True))

    def _write(self, path: Path, text: str) -> None:
        try:
            files.write_text(path, text)
        except RelayliteError as error:
            self.notify(str(error), title="Failed", severity="error", markup=False)
        else:
            self.notify(f"Saved to {path}", markup=False)

    def _ask_path(self, title: str, path: Path, then: Any) -> None:
        def take(chosen: Path | None) -> None:
            if chosen is not None:
                then(chosen)

        self.app.push_screen(PathDialog(title, path), take)
