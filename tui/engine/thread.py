"""The thread that opens a model and carries out jobs on it. Jobs go in, reports come out; it never touches a widget.

The app's own thread calls only `Chain.cancel`, and `Relay.piece`, which reads the vocabulary. The chain has threads of its own
(docs/architecture.md, Threads).

It is a daemon thread of our own and no Textual worker: quitting must not wait for a native call that does not come back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from relaylite.chain.agents import Agent
from relaylite.chain.attachments import Attachment
from relaylite.reuse.policies import Policy
from relaylite.tui.engine import keeping
from relaylite.tui.engine.jobs import Jobs
from relaylite.tui.engine.opener import Opener
from relaylite.tui.engine.reports import Place, Report

if TYPE_CHECKING:
    from relaylite.chain.chain import Chain
    from relaylite.chain.conversation import Conversation


class EngineThread(threading.Thread):
    """Carries out jobs in order. The app calls the methods below; they return at once. `reports` says what came of the jobs."""

    def __init__(self, opener: Opener, agents: Sequence[Agent], policy: Policy, keeper: keeping.Keeper | None = None) -> None:
        super().__init__(name="relaylite-engine", daemon=True)
        self.reports: SimpleQueue[Report] = SimpleQueue()
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._jobs = Jobs(opener, self.reports.put, agents, policy, keeper or keeping.Keeper())
        self._stops: list[threading.Event] = []  # of the jobs that wait or run and can be stopped

    def open(self, model: str) -> None:
        """Fetch the model if need be, close the one before it, and open it; the conversation goes on."""
        self._put_stoppable(partial(self._jobs.open, model))

    def send(self, task: str, files: Sequence[Attachment], stop_after: int | None) -> None:
        """Let the chain answer `task` and the files that it names as @file; pause after the agent at `stop_after`."""
        self._put_stoppable(partial(self._jobs.send, task, tuple(files), stop_after))

    def resume(self, stop_after: int | None) -> None:
        self._put_stoppable(partial(self._jobs.resume, stop_after))

    def extend(self, round: int, index: int, stop_after: int | None) -> None:
        """Let a cut answer go on."""
        self._put_stoppable(partial(self._jobs.extend, round, index, stop_after))

    def measure(self, round: int, index: int) -> None:
        """Prefill that turn's prompt in full, once, for comparison."""
        self._put_stoppable(partial(self._jobs.measure, round, index))

    def compare(self, round: int, index: int, policy: Policy) -> None:
        """Let that prompt be answered under another policy too, and report both."""
        self._put_stoppable(partial(self._jobs.compare, round, index, policy))

    def cancel(self) -> None:
        """Stop the running job within a second, and those that wait as soon as they begin."""
        for is_stopped in list(self._stops):
            is_stopped.set()
        if (chain := self._jobs.chain) is not None:
            chain.cancel()

    def configure(self, agents: Sequence[Agent], policy: Policy, sampling: Mapping[str, Any]) -> None:
        """Who answers from now on, and how; `sampling` as `Chain.chosen`."""
        self._queue.put(partial(self._jobs.configure, tuple(agents), policy, dict(sampling)))

    def drop(self, round: int, index: int | None) -> None:
        """Go back to before that answer, or to before the whole round. `change` can bring it back."""
        self._put_guarded(partial(self._jobs.drop, round, index))

    def change(self, change: Callable[[Conversation], None], place: Place | None = None) -> None:
        """Do `change`, such as `Conversation.undo`, and show the conversation at `place`."""
        self._put_guarded(partial(keeping.change, self._jobs, change, place))

    def open_session(self, name: str) -> None:
        """Go on with another conversation."""
        self._put_guarded(partial(keeping.open_session, self._jobs, name))

    def rename_session(self, name: str) -> None:
        self._put_guarded(partial(keeping.rename_session, self._jobs, name))

    def edit(self, round: int, index: int, text: str) -> None:
        self._put_guarded(partial(self._jobs.edit, round, index, text))

    def save(self, path: Path) -> None:
        self._put_guarded(partial(self._jobs.save, path))

    def load(self, path: Path) -> None:
        self._put_guarded(partial(self._jobs.load, path))

    def clear(self) -> None:
        """Start a new conversation."""
        self._put_guarded(self._jobs.clear)

    def piece(self, token: int) -> str:
        """The text of one token, for showing; "" before a model is open."""
        relay = self._jobs.relay
        return relay.piece(token).decode("utf-8", "replace") if relay is not None else ""

    def close(self, timeout: float) -> bool:
        """Stop the running job, close the model, end the thread; whether it ended in time."""
        self._queue.put(None)
        self.cancel()
        self.join(timeout)
        return not self.is_alive()

    def run(self) -> None:
        while (job := self._queue.get()) is not None:
            job()
        self._jobs.close()

    def _put_guarded(self, job: Callable[[Chain], None]) -> None:
        self._queue.put(partial(self._jobs.guarded, job))

    def _put_stoppable(self, job: Callable[[threading.Event], None]) -> None:
        is_stopped = threading.Event()
        self._stops.append(is_stopped)

        def run() -> None:
            try:
                job(is_stopped)
            finally:
                self._stops.remove(is_stopped)

        self._queue.put(run)
