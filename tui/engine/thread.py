"""The one thread that touches a model. Jobs go in, reports come out; it never touches a widget.

It is a daemon thread of our own and no Textual worker: quitting must not wait for a native call that does not come back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from relaylite.chain.agents import Agent
from relaylite.chain.attachments import Attachment, attached_in, words_without_file
from relaylite.errors import Cancelled, RelayliteError
from relaylite.events import Event, Notice
from relaylite.reuse.policies import Policy
from relaylite.tui import files
from relaylite.tui.engine import reports
from relaylite.tui.engine.opener import ChainLike, Opener, Progress, RelayLike

log = logging.getLogger(__name__)


def reason_of(error: BaseException) -> str:
    """One line for a notice. Errors that are not ours are defects: named as such, with the traceback in the log."""
    if isinstance(error, Cancelled):
        return reports.STOPPED
    if isinstance(error, RelayliteError):
        return str(error)
    log.error("unexpected error in a job", exc_info=error)
    return f"internal error: {type(error).__name__}: {error} (the log has more)"


class EngineThread(threading.Thread):
    """Carries out jobs in order. All methods below are called by the app and return at once."""

    def __init__(
        self,
        opener: Opener,
        agents: Sequence[Agent],
        policy: Policy,
        saved: Mapping[str, Any] | None = None,
        keep: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        """`saved`: a conversation to go on with; `keep` is called with the conversation whenever it has changed."""
        super().__init__(name="relaylite-engine", daemon=True)
        self.reports: SimpleQueue[reports.Report] = SimpleQueue()
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._opener = opener
        self._agents, self._policy = tuple(agents), policy
        self._relay: RelayLike | None = None
        self._chain: ChainLike | None = None
        self._keep = keep
        self._kept = saved  # a conversation that waits for the next model
        self._cancel_asked = threading.Event()

    # -- what the app calls ------------------------------------------------------------------------------------------

    def open(self, model: str) -> None:
        """Fetch the model if need be, close the one before it, and open it; the conversation goes on."""
        self._cancel_asked.clear()
        self._put(partial(self._do_open, model))

    def send(self, task: str, files: Sequence[Attachment], stop_after: int | None) -> None:
        """Let the chain answer `task` and the files that it names as @file; pause after the agent at `stop_after`."""
        self._cancel_asked.clear()
        self._put(partial(self._do_run, partial(self._stream, task, tuple(files), stop_after)))

    def resume(self, stop_after: int | None) -> None:
        self._cancel_asked.clear()
        self._put(partial(self._do_run, lambda chain: chain.resume(stop_after)))

    def cancel(self) -> None:
        """Stop the running job within a second."""
        self._cancel_asked.set()
        if self._chain is not None:
            self._chain.cancel()

    def configure(self, agents: Sequence[Agent], policy: Policy) -> None:
        self._put(partial(self._do_configure, tuple(agents), policy))

    def drop(self, index: int | None) -> None:
        """Take back the last round's answers from `index` on, or the whole round."""
        self._put(partial(self._guarded, partial(self._do_drop, index)))

    def edit(self, round: int, index: int, text: str) -> None:
        self._put(partial(self._guarded, partial(self._do_edit, round, index, text)))

    def measure(self, round: int, index: int) -> None:
        """Prefill that turn's prompt in full, once, for comparison."""
        self._cancel_asked.clear()
        self._put(partial(self._guarded, partial(self._do_measure, round, index)))

    def save(self, path: Path) -> None:
        self._put(partial(self._guarded, partial(self._do_save, path)))

    def load(self, path: Path) -> None:
        self._put(partial(self._guarded, partial(self._do_load, path)))

    def clear(self) -> None:
        """Start a new conversation."""
        self._put(partial(self._guarded, self._do_clear))

    def piece(self, token: int) -> str:
        """The text of one token, for showing; "" before a model is open."""
        return self._relay.piece(token).decode("utf-8", "replace") if self._relay is not None else ""

    def close(self, timeout: float) -> bool:
        """Stop the running job, close the model, end the thread; whether it ended in time."""
        self._put(None)
        self.cancel()
        self.join(timeout)
        return not self.is_alive()

    # -- in the thread -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
        if self._relay is not None:
            self._relay.close()

    def _put(self, job: Callable[[], None] | None) -> None:
        self._jobs.put(job)

    def _report(self, report: reports.Report) -> None:
        self.reports.put(report)

    def _guarded(self, job: Callable[[ChainLike], None]) -> None:
        if self._chain is None:
            self._report(reports.Failed("no model is open yet"))
            return
        try:
            job(self._chain)
        except Exception as error:
            self._report(reports.Failed(reason_of(error)))

    def _do_open(self, model: str) -> None:
        def progress(progress: Progress) -> None:
            self._report(reports.Opening(model, progress))
            if self._cancel_asked.is_set():
                raise Cancelled("stopped")

        try:
            path = self._opener.locate(model, progress)
        except Exception as error:
            self._report(reports.OpenFailed(model, reason_of(error), self._relay.info if self._relay is not None else None))
            return
        self._shut()
        try:
            relay = self._opener.open(path, progress)
            chain = relay.chain_from_dict(self._kept) if self._kept is not None else relay.chain(self._agents)
        except Exception as error:
            self._report(reports.OpenFailed(model, reason_of(error), None))
            return
        self._relay, resumed, self._kept = relay, self._kept is not None, None
        self._report(reports.Opened(model, relay.info))
        if resumed:
            self._adopt(chain, None)
        else:
            chain.policy = self._policy
            self._chain = chain
        self._report(reports.MemoryUsed(relay.memory()))

    def _shut(self) -> None:
        """Close the model, so that there is room for another; its conversation is kept for that one."""
        if self._chain is not None and self._chain.rounds:
            self._kept = self._chain.to_dict()
        old, self._relay, self._chain = self._relay, None, None
        if old is not None:
            old.close()

    def _do_run(self, start: Callable[[ChainLike], Iterator[Event]]) -> None:
        if self._chain is None or self._relay is None:
            self._report(reports.RunEnded("failed", "no model is open; choose one first"))
            return
        try:
            for event in start(self._chain):
                self._report(event)
                if self._cancel_asked.is_set():  # a cancel that came before the chain had begun is not lost
                    self._chain.cancel()
        except Cancelled:
            self._report(reports.RunEnded("stopped"))
        except Exception as error:
            self._report(reports.RunEnded("failed", reason_of(error)))
        else:
            self._report(reports.RunEnded("paused" if len(self._chain.rounds[-1].turns) < len(self._chain.agents) else "done"))
        self._report(reports.MemoryUsed(self._relay.memory()))
        self._keep_conversation()

    def _keep_conversation(self) -> None:
        if self._keep is None or self._chain is None:
            return
        try:
            self._keep(self._chain.to_dict())
        except Exception as error:
            self._report(reports.Failed(reason_of(error)))

    def _stream(self, task: str, files: tuple[Attachment, ...], stop_after: int | None, chain: ChainLike) -> Iterator[Event]:
        found, missing = attached_in(task)
        files = (*files, *found)
        if missing:
            self._report(Notice(words_without_file(missing)))
        self._report(reports.Attached(tuple(file.source for file in files)))
        return chain.stream(task, files=files, stop_after=stop_after)

    def _do_configure(self, agents: tuple[Agent, ...], policy: Policy) -> None:
        self._agents, self._policy = agents, policy
        if self._chain is not None:
            self._chain.agents, self._chain.policy = agents, policy

    def _do_drop(self, index: int | None, chain: ChainLike) -> None:
        last = len(chain.rounds) - 1
        self._report(reports.Dropped(last, index, chain.retry(index)))

    def _do_edit(self, round: int, index: int, text: str, chain: ChainLike) -> None:
        chain.edit(round, index, text)
        self._report(reports.Edited(round, index, text))
        self._keep_conversation()

    def _do_measure(self, round: int, index: int, chain: ChainLike) -> None:
        self._report(reports.Measured(round, index, chain.measure_full(round, index)))

    def _do_save(self, path: Path, chain: ChainLike) -> None:
        files.write_json(path, chain.to_dict())
        self._report(reports.Saved(path))

    def _do_load(self, path: Path, chain: ChainLike) -> None:
        data: dict[str, Any] = files.read_json(path)
        assert self._relay is not None
        self._adopt(self._relay.chain_from_dict(data), path)

    def _do_clear(self, chain: ChainLike) -> None:
        assert self._relay is not None
        self._adopt(self._relay.chain(self._agents), None)

    def _adopt(self, chain: ChainLike, path: Path | None) -> None:
        chain.policy = self._policy
        self._chain, self._agents = chain, tuple(chain.agents)
        rounds = tuple(
            reports.LoadedRound(each.task, tuple(file.source for file in each.files), tuple(each.turns)) for each in chain.rounds
        )
        self._report(reports.Loaded(path, rounds, self._agents))
