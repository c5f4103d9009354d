"""`RunView`: shows a run as it goes on: its message, the agents' turns, their text, its end."""

from __future__ import annotations

import time

from relaylite.events import ChainFinished, ChainStarted, Phase, PrefillDone, TextDelta, TurnFinished, TurnStarted
from relaylite.tui import look
from relaylite.tui.conversation import State, TurnRecord
from relaylite.tui.engine import reports
from relaylite.tui.run_state import RunState
from relaylite.tui.screens.main.notices import Notices
from relaylite.tui.screens.main.parts import MainParts

PHASE_STATES: dict[str, State] = {"render": "reusing", "place": "reusing", "repair": "repairing", "suffix": "reading", "write": "writing"}
FIGURES_EVERY = 10  # ticks between two drawings of a growing answer's figures
STATUS_EVERY = 4  # of the seconds and the sign that turns: each drawing is bytes on the line
BELL_AFTER_S = 20.0  # a run that took so long ends with a bell: the user may look elsewhere

RunReport = (
    ChainStarted | TurnStarted | Phase | PrefillDone | TextDelta | TurnFinished | ChainFinished | reports.Attached | reports.RunEnded
)


class RunView:
    """Takes the reports of a run, one at a time, in order."""

    def __init__(self, state: RunState, parts: MainParts, notices: Notices) -> None:
        self._state, self._parts, self._notices = state, parts, notices
        self._ticks = 0

    async def show(self, report: RunReport) -> None:
        match report:
            case TextDelta():
                self._text(report)
            case Phase():
                self._stage(PHASE_STATES[report.name])
            case ChainStarted():
                await self._chain_started(report)
            case reports.Attached():
                self._state.attached = report.files
            case TurnStarted():
                await self._turn_started(report)
            case PrefillDone():
                self._prefill_done(report)
            case TurnFinished():
                self._turn_finished(report)
            case reports.RunEnded():
                await self._parts.transcript.drop_waiting()
                self._run_ended(report)

    def tick(self) -> None:
        """Called many times a second: the seconds that the running turn has taken, and what else goes on."""
        state, parts = self._state, self._parts
        if parts.input.placeholder != state.invitation:
            parts.input.placeholder = state.invitation
        self._ticks += 1
        if state.running is not None and state.running.state == "writing" and self._ticks % FIGURES_EVERY == 0:
            self._grow(state.running)
        if self._ticks % STATUS_EVERY:
            return
        if state.info is None:
            parts.status.spin()
        elif state.running_since is not None:
            parts.status.show_running(state.running, time.monotonic() - state.running_since)
        elif state.is_measuring and state.compared_with:
            parts.status.show_comparing(state.compared_with, state.n_compared)
        elif state.is_measuring:
            parts.status.show_measuring(state.measured_share)

    def _grow(self, record: TurnRecord) -> None:
        """The context fills while an answer is written."""
        self._parts.top.redraw()
        if record is self._parts.inspector.record:
            self._parts.inspector.refresh_figures()

    async def _chain_started(self, report: ChainStarted) -> None:
        state, parts = self._state, self._parts
        await parts.transcript.drop_waiting()
        rounds = state.conversation.rounds
        is_resumed = bool(rounds) and rounds[-1].number == report.round
        parts.chain.reset(state.missing if is_resumed else None)
        if not is_resumed:
            task = state.unsent.pop(0) if state.unsent else ""
            await parts.transcript.add(state.conversation.start_round(task, report.round, state.attached))
            state.files = state.attached = ()

    async def _turn_started(self, report: TurnStarted) -> None:
        conversation, parts = self._state.conversation, self._parts
        lost = [turn for turn in conversation.rounds[-1].turns if not turn.is_kept]
        if lost:  # a turn that failed makes room for its retry
            conversation.forget(lost)
            await parts.transcript.drop([*lost])
        record = self._state.current = conversation.start_turn(report.agent, report.index, report.parts, report.at)
        record.text = report.begun
        parts.chain.set_state(report.index, record.state)
        behind = conversation.rounds[-1].turns[record.index + 1 :]
        await parts.transcript.add(record, before=behind[0] if behind else None)

    def _stage(self, state: State) -> None:
        record = self._state.current
        if record is not None and record.state != state:
            record.state = state
            self._parts.chain.set_state(record.place, state)
            if (block := self._parts.transcript.turn_block(record)) is not None:
                block.refresh_title()

    def _prefill_done(self, report: PrefillDone) -> None:
        record = self._state.current
        if record is not None:
            record.metrics, record.cells = report.metrics, report.cells
            self._stage("writing")
            if (block := self._parts.transcript.turn_block(record)) is not None:
                block.refresh_title()
            self._parts.inspector.show(record)

    def _text(self, report: TextDelta) -> None:
        record = self._state.current
        if record is not None:
            record.text += report.text
            record.n_tokens = report.n_tokens
            if (block := self._parts.transcript.turn_block(record)) is not None:
                block.write(report.text)

    def _turn_finished(self, report: TurnFinished) -> None:
        record = self._state.current
        if record is not None:
            record.finish(report.turn)
            self._settle(record)
            self._parts.inspector.show(record)
            self._parts.top.redraw()

    def _settle(self, record: TurnRecord) -> None:
        """Show a turn as it ended."""
        self._parts.chain.set_state(record.place, record.state)
        if (block := self._parts.transcript.turn_block(record)) is not None:
            block.settle()

    def _run_ended(self, report: reports.RunEnded) -> None:
        state, parts = self._state, self._parts
        seconds = time.monotonic() - state.running_since if state.running_since is not None else 0.0
        state.running_since = None
        if report.outcome != "stopped" and seconds >= BELL_AFTER_S:
            self._notices.ring()
        if (record := state.running) is not None:
            record.state = "failed" if report.outcome == "failed" else "stopped"
            self._settle(record)
        if state.unsent:  # refused before the chain began: the message goes back to the input
            parts.input.give_back(state.unsent.pop())
        if report.outcome == "failed":
            self._notices.complain(report.reason)
        else:
            last = state.conversation.last
            if report.outcome == "paused" and last is not None:
                parts.status.show_text(f"{look.PAUSE_SIGN} Paused after {last.agent}: Enter goes on, F9 corrects the answer", "$warning")
            else:
                parts.status.show_turn(last)
