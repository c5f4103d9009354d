"""`ReportView`: brings the widgets to where the engine is, report by report."""

from __future__ import annotations

from pathlib import Path

from relaylite.events import Notice
from relaylite.gguf.catalog import is_bundled
from relaylite.tui.engine import reports
from relaylite.tui.run_state import RunState
from relaylite.tui.screens.comparison_dialog import ComparisonDialog
from relaylite.tui.screens.main.notices import Notices
from relaylite.tui.screens.main.parts import MainParts
from relaylite.tui.screens.main.run_view import RunView

DEMO_NOTE = "This is the demo model; Ctrl+L for better ones."


class ReportView:
    """Reports come in through `show`, one at a time, in order. Those of a run are shown by a `RunView`."""

    def __init__(self, state: RunState, parts: MainParts, notices: Notices) -> None:
        self._state, self._parts, self._notices = state, parts, notices
        self._run = RunView(state, parts, notices)

    async def show(self, report: reports.Report) -> None:
        """While the app closes, its last reports come too late: they are not shown."""
        if not self._parts.transcript.is_attached:
            return
        match report:
            case Notice():
                self._notices.once(report.text, "information" if report.is_minor else "warning")
            case reports.Opening():
                self._state.info, self._state.is_opening = None, True
                self._parts.top.show_opening(report.model)
                self._parts.status.show_progress(report.progress)
            case reports.Opened():
                self._opened(report)
            case reports.OpenFailed():
                self._open_failed(report)
            case reports.MemoryUsed():
                self._parts.inspector.show_memory(report.memory)
            case reports.Dropped() | reports.Edited() | reports.Measured() | reports.Loaded() | reports.Versions() | reports.InSession():
                await self._show_change(report)
                self._parts.top.redraw()
            case reports.Comparing():
                self._state.n_compared = report.n_tokens
            case reports.Compared():
                self._state.is_measuring = False
                self._parts.status.show_turn(self._state.conversation.last)
                self._parts.transcript.app.push_screen(ComparisonDialog(report.comparison))
            case reports.Saved():
                self._notices.say(f"Saved to {report.path}")
            case reports.Failed():
                self._state.is_measuring = False
                self._notices.complain(report.reason)
            case _:
                await self._run.show(report)

    def tick(self) -> None:
        """Called many times a second, for what moves by itself."""
        self._run.tick()

    def _opened(self, report: reports.Opened) -> None:
        state, parts, info = self._state, self._parts, report.info
        state.info, state.model, state.is_opening = info, report.model, False
        self._notices.forget()
        parts.top.show_model(info)
        parts.transcript.show_note(DEMO_NOTE if is_bundled(Path(info.path).stem) else "")
        parts.status.end_progress()
        parts.status.show_turn(state.conversation.last)
        parts.chain.set_policy(state.policy, info.relay_refusal)
        for warning in info.warnings:
            self._notices.once(warning)
        if info.relay_refusal:
            self._notices.say(f"This model runs without relaying: {info.relay_refusal}", "warning", timeout=10)

    def _open_failed(self, report: reports.OpenFailed) -> None:
        self._state.info, self._state.is_opening = report.kept, False
        self._parts.status.end_progress()
        if report.kept is not None:
            self._parts.top.show_model(report.kept)
        else:
            self._parts.top.show_failed(report.model)
        self._notices.complain(report.reason)

    async def _show_change(self, report: reports.Change) -> None:
        match report:
            case reports.Dropped():
                await self._dropped(report)
            case reports.Edited():
                self._edited(report)
            case reports.Measured():
                self._measured(report)
            case reports.Loaded():
                await self._loaded(report)
            case reports.Versions():
                for item in self._state.conversation.mark_versions(report.found):
                    if (block := self._parts.transcript.block_of(item)) is not None:
                        block.refresh_title()
            case reports.InSession():
                self._in_session(report)

    async def _dropped(self, report: reports.Dropped) -> None:
        conversation, parts = self._state.conversation, self._parts
        gone = list(conversation.rounds[report.round + (report.index is not None) :])
        await parts.transcript.drop([*gone, *conversation.drop(report.round, report.index)])
        self._state.current = None
        parts.chain.reset(self._state.missing if report.index is not None else None)
        parts.inspector.show(conversation.last)

    def _edited(self, report: reports.Edited) -> None:
        record = self._state.conversation.find(report.round, report.index)
        if record is not None:
            record.text, record.was_edited = report.text, True
            if (block := self._parts.transcript.turn_block(record)) is not None:
                block.settle()

    def _measured(self, report: reports.Measured) -> None:
        self._state.is_measuring = False
        record = self._state.conversation.find(report.round, report.index)
        if record is not None:
            record.full_ms = report.full_ms
            if (block := self._parts.transcript.turn_block(record)) is not None:
                block.refresh_title()
            self._parts.inspector.show(record)
            self._parts.status.show_turn(record)

    async def _loaded(self, report: reports.Loaded) -> None:
        state, parts = self._state, self._parts
        state.conversation.load((each.task, each.files, each.turns) for each in report.rounds)
        if state.agents != report.agents:
            state.agents = report.agents
            await parts.chain.set_agents(state.agents)
        state.policy, state.sampling, state.current = report.policy, report.sampling, None
        parts.chain.set_policy(state.policy, state.relay_refusal)
        await parts.transcript.show_all()
        if report.place is not None:
            await self._show_place(*report.place)
        parts.inspector.show(state.conversation.last)
        parts.status.show_turn(state.conversation.last)
        if report.path is not None:
            self._notices.say(f"Loaded {report.path}")

    async def _show_place(self, round: int, index: int | None) -> None:
        """Have the user look at that place, as before the change."""
        rounds = self._state.conversation.rounds
        if round < len(rounds):
            turns = rounds[round].turns
            self._parts.transcript.show_place(rounds[round] if index is None or index >= len(turns) else turns[index])

    def _in_session(self, report: reports.InSession) -> None:
        state = self._state
        if report.is_read_only and (report.name, True) != (state.session, state.is_read_only):
            self._notices.say(f"Session {report.name} is open in another relaylite: here it can only be read.", "warning", timeout=10)
        state.session, state.is_read_only = report.name, report.is_read_only
        self._parts.top.show_session(report.name, is_read_only=report.is_read_only)
