"""The main screen: lays out the parts and shows what the engine reports. What the user can do is in `actions.py`."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.notifications import SeverityLevel
from textual.widgets import Footer, Input

from relaylite.chain.agents import Agent
from relaylite.chain.attachments import Attachment
from relaylite.events import ChainStarted, Notice, Phase, PrefillDone, TextDelta, TurnFinished, TurnStarted
from relaylite.reuse.policies import Policy
from relaylite.terminal_text import fit_for_terminal, one_line
from relaylite.tui import look
from relaylite.tui.commands import in_place_of
from relaylite.tui.conversation import FINISHED, Conversation, State
from relaylite.tui.engine import reports
from relaylite.tui.engine.thread import EngineThread
from relaylite.tui.screens.main.actions import Actions
from relaylite.tui.widgets.chain_strip import ChainStrip
from relaylite.tui.widgets.inspector.inspector import Inspector
from relaylite.tui.widgets.prompt_input import PromptInput
from relaylite.tui.widgets.search_bar import SearchBar
from relaylite.tui.widgets.status import StatusLine, TopBar
from relaylite.tui.widgets.transcript.blocks import TurnBlock
from relaylite.tui.widgets.transcript.transcript import Transcript

PHASE_STATES: dict[str, State] = {"render": "reusing", "place": "reusing", "repair": "repairing", "suffix": "reading", "write": "writing"}


SLASH_COMMAND = re.compile(r"(/[A-Za-z?]+)(?:\s|$)")  # people type them out of habit; a path such as /etc/hosts is none
FIGURES_EVERY = 10  # ticks between two drawings of a growing answer's figures


class MainScreen(Actions):
    """Reports come in through `show_report`, one at a time, in order."""

    def __init__(
        self, engine: EngineThread, conversation: Conversation, agents: Sequence[Agent], policy: Policy, files: Sequence[Attachment]
    ) -> None:
        super().__init__()
        self.engine, self.conversation = engine, conversation
        self.agents, self.policy = tuple(agents), policy
        self.pauses: frozenset[int] = frozenset()
        self.info = None
        self._tasks: list[str] = []  # messages on their way to the chain
        self._files = tuple(files)  # for the first message
        self._attached: tuple[str, ...] = ()
        self._running_since: float | None = None
        self._noticed: set[str] = set()
        self._ticks = 0

    def compose(self) -> ComposeResult:
        yield TopBar(self.conversation)
        yield ChainStrip(self.agents, self.policy)
        with Horizontal(id="middle"):
            yield Transcript(self.conversation, self.color_at)
            yield Inspector(self.conversation, self.engine.piece, self.color_of)
        yield SearchBar()
        yield StatusLine()
        yield PromptInput(self.app.history, id="input", placeholder="Message to the agents")
        yield Footer(show_command_palette=True, compact=True)

    def on_mount(self) -> None:
        self.input.focus()

    # -- colours -----------------------------------------------------------------------------------------------------

    def color_at(self, name: str, index: int) -> str:
        """The colour of the agent of that name at that place of the chain."""
        agent = self.agents[index] if index < len(self.agents) and self.agents[index].name == name else self.app.known.get(name)
        return look.agent_color(agent, index)

    def color_of(self, name: str) -> str:
        index = next((i for i, agent in enumerate(self.agents) if agent.name == name), 0)
        return self.color_at(name, index)

    # -- reports -----------------------------------------------------------------------------------------------------

    async def show_report(self, report: reports.Report) -> None:
        """Bring the widgets to where the engine is. While the app closes, its last reports come too late."""
        if not self.transcript.is_attached:
            return
        match report:
            case TextDelta():
                self._show_text(report)
            case Phase():
                self._show_state(PHASE_STATES[report.name])
            case ChainStarted():
                await self._show_chain_started(report)
            case reports.Attached():
                self._attached = report.files
            case TurnStarted():
                await self._show_turn_started(report)
            case PrefillDone():
                self._show_prefill(report)
            case TurnFinished():
                self._show_turn_finished(report)
            case Notice():
                self._show_notice(report.text, "information" if report.is_minor else "warning")
            case reports.RunEnded():
                await self.transcript.drop_waiting()
                self._show_run_ended(report)
            case reports.Opening() | reports.Opened() | reports.OpenFailed() | reports.MemoryUsed():
                self._show_model(report)
            case reports.Dropped() | reports.Edited() | reports.Measured() | reports.Loaded():
                await self._show_change(report)
            case reports.Saved():
                self.notify(f"Saved to {report.path}", markup=False)
            case reports.Failed():
                self.is_measuring = False
                self.complain(report.reason)

    def _show_notice(self, text: str, severity: SeverityLevel = "warning") -> None:
        """Each once for a model, whether opening it or a run said so."""
        refusal = self.info.relay_refusal if self.info is not None else None
        if text not in self._noticed and not (refusal and refusal in text):
            self._noticed.add(text)
            self.notify(fit_for_terminal(text), severity=severity, timeout=10, markup=False)

    async def _show_chain_started(self, report: ChainStarted) -> None:
        await self.transcript.drop_waiting()
        self.chain.reset(len(self.conversation.rounds[-1].turns) if self._is_last_round(report.round) else 0)
        if not self._is_last_round(report.round):
            task = self._tasks.pop(0) if self._tasks else ""
            await self.transcript.add(self.conversation.start_round(task, report.round, self._attached))
            self._files = self._attached = ()

    def _is_last_round(self, number: int) -> bool:
        return bool(self.conversation.rounds) and self.conversation.rounds[-1].number == number

    async def _show_turn_started(self, report: TurnStarted) -> None:
        lost = [turn for turn in self.conversation.rounds[-1].turns if not turn.is_kept]
        if lost:  # a turn that failed makes room for its retry
            self.conversation.forget(lost)
            await self.transcript.drop([*lost])
        record = self.conversation.start_turn(report.agent, report.index, report.parts)
        self.current = record
        self.chain.set_state(report.index, record.state)
        await self.transcript.add(record)

    def _show_state(self, state: State) -> None:
        if self.current is not None and self.current.state != state:
            self.current.state = state
            self.chain.set_state(self.current.index, state)
            if (block := self.block_of(self.current)) is not None:
                block.refresh_title()

    def _show_prefill(self, report: PrefillDone) -> None:
        if self.current is None:
            return
        self.current.metrics, self.current.cells = report.metrics, report.cells
        self._show_state("writing")
        if (block := self.block_of(self.current)) is not None:
            block.refresh_title()
        self.inspector.show(self.current)

    def _show_text(self, report: TextDelta) -> None:
        if self.current is None:
            return
        self.current.text += report.text
        self.current.n_tokens = report.n_tokens
        if (block := self.block_of(self.current)) is not None:
            block.write(report.text)

    def _show_turn_finished(self, report: TurnFinished) -> None:
        record = self.current
        if record is None:
            return
        record.finish(report.turn)
        self.chain.set_state(record.index, record.state)
        if (block := self.block_of(record)) is not None:
            block.settle()
        self.inspector.show(record)
        self.top.redraw()

    def _show_run_ended(self, report: reports.RunEnded) -> None:
        self._running_since = None
        record = self.current
        if record is not None and record.state not in FINISHED:
            record.state = "failed" if report.outcome == "failed" else "stopped"
            self.chain.set_state(record.index, record.state)
            if (block := self.block_of(record)) is not None:
                block.settle()
        if self._tasks:  # refused before the chain began: the message goes back to the input
            self.input.give_back(self._tasks.pop())
        if report.outcome == "failed":
            self.complain(report.reason)
        elif report.outcome == "paused":
            self.notify("Paused. F9 corrects the answer; Enter on an empty input goes on.", timeout=8)
        if report.outcome != "failed":
            self.status.show_turn(self.conversation.last)
        self.refresh_bindings()

    def _show_model(self, report: reports.Opening | reports.Opened | reports.OpenFailed | reports.MemoryUsed) -> None:
        match report:
            case reports.Opening():
                self.top.show_opening(report.model)
                self.status.show_progress(report.progress)
            case reports.Opened():
                self.info, self._noticed = report.info, set()
                self.top.show_model(report.info)
                self.status.end_progress()
                self.status.show_turn(self.conversation.last)
                self.chain.set_policy(self.policy, report.info.relay_refusal)
                for warning in report.info.warnings:
                    self._show_notice(warning)
                if report.info.relay_refusal:
                    self.notify(
                        f"This model runs without relaying: {report.info.relay_refusal}", severity="warning", timeout=10, markup=False
                    )
            case reports.OpenFailed():
                self.info = report.kept
                self.status.end_progress()
                if report.kept is not None:
                    self.top.show_model(report.kept)
                else:
                    self.top.show_failed(report.model)
                self.complain(report.reason)
            case reports.MemoryUsed():
                self.inspector.show_memory(report.memory)

    async def _show_change(self, report: reports.Dropped | reports.Edited | reports.Measured | reports.Loaded) -> None:
        match report:
            case reports.Dropped():
                gone = list(self.conversation.rounds[report.round :]) if report.index is None else []
                await self.transcript.drop([*gone, *self.conversation.drop(report.round, report.index)])
                self.current = None
                self.chain.reset(report.index or 0)
                self.inspector.show(self.conversation.last)
            case reports.Edited():
                record = self.conversation.find(report.round, report.index)
                if record is not None:
                    record.text, record.was_edited = report.text, True
                    if (block := self.block_of(record)) is not None:
                        block.settle()
            case reports.Measured():
                self.is_measuring = False
                record = self.conversation.find(report.round, report.index)
                if record is not None:
                    record.full_ms = report.full_ms
                    if (block := self.block_of(record)) is not None:
                        block.refresh_title()
                    self.inspector.show(record)
                    self.status.show_turn(record)
            case reports.Loaded():
                await self._show_loaded(report)
        self.top.redraw()

    async def _show_loaded(self, report: reports.Loaded) -> None:
        self.conversation.load((each.task, each.files, each.turns) for each in report.rounds)
        self.agents, self.current = report.agents, None
        await self.chain.set_agents(self.agents)
        await self.transcript.show_all()
        self.inspector.show(self.conversation.last)
        self.status.show_turn(self.conversation.last)
        if report.path is not None:
            self.notify(f"Loaded {report.path}", markup=False)

    def tick(self) -> None:
        """Called many times a second: the seconds that the running turn has taken."""
        if self.info is None:
            self.status.spin()
            return
        if self._running_since is not None:
            running = self.current if self.current and self.current.state not in FINISHED else None
            self.status.show_running(running, time.monotonic() - self._running_since)
            if running is not None and running.state == "writing":
                self.top.redraw()
                self._ticks += 1
                if running is self.inspector.record and self._ticks % FIGURES_EVERY == 0:
                    self.inspector.refresh_figures()
        elif self.is_measuring:
            self.status.show_text("Measuring a full prefill… Esc stops")

    # -- input -------------------------------------------------------------------------------------------------------

    @on(PromptInput.Sent)
    async def _send(self, event: PromptInput.Sent) -> None:
        if self.is_busy or self.is_measuring:
            self.notify("The agents are still at work; Esc stops them.", severity="warning")
            return
        if not event.text.strip():
            if self.can_resume:
                self.resume()
            return
        if command := SLASH_COMMAND.match(event.text):
            self.notify(in_place_of(command[1], self.app.replaced_keys), severity="warning", timeout=8, markup=False)
            return
        self._tasks.append(event.text)
        self.input.taken()
        if self.info is None:
            await self.transcript.show_waiting(event.text)
        self.begin()
        self.engine.send(event.text, self._files, self.next_pause(0))

    @property
    def can_resume(self) -> bool:
        """Whether agents have not answered the last message yet."""
        rounds = self.conversation.rounds
        return bool(rounds) and sum(turn.is_kept for turn in rounds[-1].turns) < len(self.agents)

    def begin(self) -> None:
        """A run starts: clock and status."""
        self._running_since = time.monotonic()
        self.current = None
        self.transcript.follow()

    @property
    def is_busy(self) -> bool:
        return self._running_since is not None

    @on(TurnBlock.Asked)
    def _asked(self, event: TurnBlock.Asked) -> None:
        self.act_on(event.block, event.wish)

    @on(ChainStrip.Asked)
    def _strip_asked(self, event: ChainStrip.Asked) -> None:
        if event.index is None:
            self.action_policy()
        else:
            self.action_agents(event.index)

    @on(events.DescendantFocus)
    def _selected(self, event: events.DescendantFocus) -> None:
        if isinstance(event.widget, TurnBlock) and event.widget.record.metrics is not None:
            self.inspector.show(event.widget.record)

    @on(SearchBar.Asked)
    async def _search(self, event: SearchBar.Asked) -> None:
        await self.find(event.text, event.step)

    @on(Input.Submitted, "#search")
    def _ignore(self, event: Input.Submitted) -> None:
        event.stop()

    def complain(self, reason: str) -> None:
        """A notice that something failed; the app lives on."""
        if reason == reports.STOPPED:
            self.notify(reason, timeout=3)
            self.status.show_turn(self.conversation.last)
            return
        self.notify(fit_for_terminal(reason), title="Failed", severity="error", timeout=12, markup=False)
        self.status.show_text(f"{look.STATE_SIGNS['failed']} {one_line(reason, 300)}", "$error")
