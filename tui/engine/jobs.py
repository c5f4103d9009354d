"""What the engine's thread does, a method for each job. It holds the open model and its chain, and reports what came of each job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event as Flag
from typing import TYPE_CHECKING, Any

from relaylite.chain.agents import Agent, unanswered
from relaylite.chain.attachments import Attachment, attached_in, words_without_file
from relaylite.errors import Cancelled, RelayliteError
from relaylite.events import Event, Notice, TextDelta
from relaylite.reuse.policies import Policy
from relaylite.tui import files
from relaylite.tui.engine import reports
from relaylite.tui.engine.keeping import Keeper
from relaylite.tui.engine.opener import Opener, Progress

if TYPE_CHECKING:
    from relaylite.api import Relay
    from relaylite.chain.chain import Chain
    from relaylite.chain.session import Session

log = logging.getLogger(__name__)


def reason_of(error: BaseException) -> str:
    """One line for a notice. An error that is not ours is a defect: it is named as such, and the log has the traceback."""
    if isinstance(error, Cancelled):
        return reports.STOPPED
    if isinstance(error, RelayliteError):
        return str(error)
    log.error("unexpected error in a job", exc_info=error)
    return f"internal error: {type(error).__name__}: {error} (the log has more)"


class Jobs:
    """All methods run in the engine's thread. `is_stopped` of a job is set, from another thread, once the user wants it to end."""

    def __init__(
        self,
        opener: Opener,
        report: Callable[[reports.Report], None],
        agents: Sequence[Agent],
        policy: Policy,
        keeper: Keeper,
    ) -> None:
        self._opener, self._report = opener, report
        self._agents, self._policy = tuple(agents), policy
        self._sampling: Mapping[str, Any] = {}  # as `Chain.chosen`
        self.keeper = keeper
        self._waiting = keeper.saved  # a conversation that waits for the next model
        self.relay: Relay | None = None
        self.chain: Chain | None = None

    # -- the model ---------------------------------------------------------------------------------------------------

    def open(self, model: str, is_stopped: Flag) -> None:
        """Fetch the model if need be, close the one before it, and open it; the conversation goes on."""

        def on_progress(progress: Progress) -> None:
            self._report(reports.Opening(model, progress))
            if is_stopped.is_set():
                raise Cancelled("stopped")

        try:
            path = self._opener.locate(model, on_progress)
            self._shut()
            self._take(self._opener.open(path, on_progress), model)
        except Exception as error:
            self._report(reports.OpenFailed(model, reason_of(error), self.relay.info if self.relay is not None else None))

    def _shut(self) -> None:
        """Close the model, so that there is room for another; its conversation waits for that one."""
        if self.chain is not None and not self.chain.conversation.is_empty:
            self._waiting = self.chain.to_dict()
        old, self.relay, self.chain = self.relay, None, None
        if old is not None:
            old.close()

    def _take(self, relay: Relay, model: str) -> None:
        """Go on with this model: with the conversation that waits for it, or a new one."""
        waiting = self._waiting
        try:
            chain = self._new_chain(relay) if waiting is None else relay.chain_from_dict(waiting)
            if waiting is not None and waiting is self.keeper.saved:
                self.keeper.go_on(chain)
        except BaseException:
            relay.close()
            raise
        self.relay, self._waiting = relay, None
        self._report(reports.Opened(model, relay.info))
        if waiting is not None:
            self.adopt(chain, self.keeper.session)
        else:
            self.chain, chain.session = chain, self.keeper.session
            self.tell_session()
        self._report(reports.MemoryUsed(relay.memory()))

    def close(self) -> None:
        if self.relay is not None:
            self.relay.close()
        self.keeper.close()

    # -- running -----------------------------------------------------------------------------------------------------

    def send(self, task: str, attached: tuple[Attachment, ...], stop_after: int | None, is_stopped: Flag) -> None:
        """Let the chain answer `task`, with the files `attached` and those that the task names."""

        def start(chain: Chain) -> Iterator[Event]:
            found, missing = attached_in(task)
            given = (*attached, *found)
            if missing:
                self._report(Notice(words_without_file(missing)))
            self._report(reports.Attached(tuple(file.source for file in given)))
            return chain.stream(task, files=given, stop_after=stop_after)

        self._run(start, is_stopped)

    def resume(self, stop_after: int | None, is_stopped: Flag) -> None:
        self._run(lambda chain: chain.resume(stop_after), is_stopped)

    def extend(self, round: int, index: int, stop_after: int | None, is_stopped: Flag) -> None:
        """Let a cut answer go on, and the agents behind it answer anew."""

        before = -1

        def start(chain: Chain) -> Iterator[Event]:
            nonlocal before
            events, before = chain.extend(round, index, stop_after), chain.conversation.branches.current
            self._report(reports.Dropped(round, index, chain.rounds[round].task))
            return events

        self._run(start, is_stopped)
        if self.chain is not None and self.chain.conversation.branches.current == before:
            self.tell_all()  # it did not come to go on, and stays as it was

    def _run(self, start: Callable[[Chain], Iterator[Event]], is_stopped: Flag) -> None:
        if self.chain is None or self.relay is None:
            refused = reports.RunEnded("failed", "no model is open; choose one first")
            self._report(reports.RunEnded("stopped") if is_stopped.is_set() else refused)
            return
        try:
            for event in start(self.chain):
                self._report(event)
                if is_stopped.is_set():  # a stop that came before the chain had begun is not lost
                    self.chain.cancel()
        except Cancelled:
            self._report(reports.RunEnded("stopped"))
        except Exception as error:
            self._report(reports.RunEnded("failed", reason_of(error)))
        else:
            is_paused = unanswered(self.chain.agents, self.chain.rounds[-1].names)
            self._report(reports.RunEnded("paused" if is_paused else "done"))
        self._report(reports.MemoryUsed(self.relay.memory()))
        self._report(reports.Versions(self.chain.conversation.branches.versions()))
        self.tell_session()

    def measure(self, round: int, index: int, is_stopped: Flag) -> None:
        """Prefill that turn's prompt in full, once, for comparison."""

        def measure(chain: Chain) -> None:
            if is_stopped.is_set():
                raise Cancelled("stopped")
            self._report(reports.Measured(round, index, chain.measure_full(round, index)))

        self.guarded(measure)

    def compare(self, round: int, index: int, policy: Policy, is_stopped: Flag) -> None:
        """Let that turn's prompt be answered under another policy too. Its events are not those of a run: only how far it is is told."""

        def compare(chain: Chain) -> None:
            def on_event(event: Event) -> None:
                if isinstance(event, TextDelta):
                    self._report(reports.Comparing(event.n_tokens))
                if is_stopped.is_set():
                    chain.cancel()

            if is_stopped.is_set():
                raise Cancelled("stopped")
            self._report(reports.Compared(chain.compare(round, index, policy, on_event)))

        self.guarded(compare)

    # -- changing and keeping the conversation: on a chain, inside `guarded` -----------------------------------------

    def guarded(self, job: Callable[[Chain], None]) -> None:
        """Do `job` on the chain. What it raises, or that there is no chain, becomes a report."""
        if self.chain is None:
            self._report(reports.Failed("no model is open yet"))
            return
        try:
            job(self.chain)
        except Exception as error:
            self._report(reports.Failed(reason_of(error)))

    def configure(self, agents: tuple[Agent, ...], policy: Policy, sampling: Mapping[str, Any]) -> None:
        """Not inside `guarded`: it also counts while no model is open."""
        self._agents, self._policy, self._sampling = agents, policy, sampling
        if self.chain is not None:
            self.chain.agents, self.chain.policy, self.chain.chosen = agents, policy, sampling

    def _new_chain(self, relay: Relay) -> Chain:
        chain = relay.chain(self._agents, policy=self._policy)
        chain.chosen = self._sampling
        return chain

    def drop(self, round: int, index: int | None, chain: Chain) -> None:
        self._report(reports.Dropped(round, index, chain.retry(index, round)))
        self._report(reports.Versions(chain.conversation.branches.versions()))

    def edit(self, round: int, index: int, text: str, chain: Chain) -> None:
        chain.edit(round, index, text)
        self._report(reports.Edited(round, index, text))
        self._report(reports.Versions(chain.conversation.branches.versions()))

    def save(self, path: Path, chain: Chain) -> None:
        files.write_json(path, chain.to_dict())
        self._report(reports.Saved(path))

    def load(self, path: Path, chain: Chain) -> None:
        data = files.read_json(path)
        assert self.relay is not None
        loaded = self.relay.chain_from_dict(data)
        self.keeper.begin()
        self.adopt(loaded, self.keeper.session, path)

    def clear(self, chain: Chain) -> None:
        assert self.relay is not None
        self.keeper.begin()
        self.adopt(self._new_chain(self.relay), self.keeper.session)

    def adopt(self, chain: Chain, session: Session | None, path: Path | None = None) -> None:
        """Show and use this conversation from now on, and keep it in this session."""
        if session is not self.keeper.session:
            self.keeper.switch(session)
        chain.session = session
        self.chain, self._agents, self._policy, self._sampling = chain, tuple(chain.agents), chain.policy, chain.chosen
        self.tell_all(path)

    # -- what the app shows of it ------------------------------------------------------------------------------------

    def tell_all(self, path: Path | None = None, place: reports.Place | None = None) -> None:
        """Report the whole conversation: it is another one, or goes on in another branch."""
        assert self.chain is not None
        rounds = tuple(
            reports.LoadedRound(each.task, tuple(file.source for file in each.files), tuple(each.turns)) for each in self.chain.rounds
        )
        self._report(reports.Loaded(path, rounds, self._agents, self._policy, place, self._sampling))
        self._report(reports.Versions(self.chain.conversation.branches.versions()))
        self.tell_session()

    def tell_session(self) -> None:
        self._report(self.keeper.state)
