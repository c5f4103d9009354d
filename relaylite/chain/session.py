"""`Session`: one conversation that is kept under a name, and that only one process may change at a time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from relaylite.chain import sessions
from relaylite.chain.agents import agents_of
from relaylite.errors import RelayliteError, UsageError
from relaylite.reuse.policies import parse_policy

if TYPE_CHECKING:
    from filelock import BaseFileLock

    from relaylite.chain.chain import Chain
    from relaylite.settings.settings import Settings

WORDS_IN_A_NAME, LENGTH_OF_A_NAME = 6, 40


class Session:
    """App and command line give it to a chain, which calls `keep`. A context manager; `close` lets others change the conversation.

    `name` is "" until the first `keep` if none was given: then the words of the first message make one.
    `is_read_only`: another process has this conversation open.
    """

    def __init__(self, name: str | None = None) -> None:
        """Raises UsageError for a name that cannot be one, RelayliteError if the sessions' folder cannot be written."""
        self.name = name or ""
        self._lock = sessions.locked(name) if name is not None else None
        self.is_read_only = name is not None and self._lock is None
        self._kept: Mapping[str, Any] = {}

    def saved(self) -> dict[str, Any] | None:
        """The conversation, unchecked; None if nothing was kept under this name yet. Raises UsageError in one line."""
        return sessions.load(self.name) if self.name else None

    def check_writable(self) -> None:
        """Raises UsageError if another process has this conversation open."""
        if self.is_read_only:
            raise UsageError(f"session {self.name} is open in another relaylite: here it can only be read; begin another conversation")

    def keep(self, conversation: Mapping[str, Any]) -> None:
        """Replace what was kept, whole or not at all; it outlives a power cut. Does nothing if nothing has been said yet.

        Raises UsageError if another process has it open, RelayliteError if it cannot be written.
        """
        self.check_writable()
        if conversation == self._kept or not (self.name or conversation["rounds"]):
            return
        if not self.name:
            self.name, self._lock = _free_name(str(conversation["rounds"][0]["task"]))
        sessions.save(self.name, conversation)
        self._kept = conversation

    def rename(self, name: str) -> None:
        """Raises UsageError if `name` cannot be one or is taken, or if another process has one of the two open."""
        self.check_writable()
        if name == self.name:
            return
        lock = sessions.locked(name)
        if lock is None or sessions.exists(name):
            if lock is not None:
                lock.release()
            raise UsageError(f"there is a session {name} already")
        try:
            if self.name and sessions.exists(self.name):
                sessions.move(self.name, name)
        except RelayliteError:
            lock.release()
            raise
        self.close()
        self.name, self._lock = name, lock

    def close(self) -> None:
        """Others may change the conversation now. Call it only when nothing is kept any more."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def go_on_with(chain: Chain, settings: Settings) -> None:
    """What flags and variables say of agents, sampling and policy replaces what was saved. Raises UsageError for a name of no agent."""
    if settings.is_forced("agents"):
        chain.agents = agents_of(settings)
    else:
        chain.agents = tuple(agent.with_sampling(settings.forced_sampling()) for agent in chain.agents)
    if settings.is_forced("policy") or settings.is_forced("fidelity"):
        chain.policy = parse_policy(settings.policy, settings.fidelity)


def _free_name(message: str) -> tuple[str, BaseFileLock]:
    """A name made of the first words of `message` that no session has, and its lock."""
    words = re.findall(r"[^\W_]+", message.lower())[:WORDS_IN_A_NAME]
    stem = "-".join(words)[:LENGTH_OF_A_NAME].strip("-") or "conversation"
    n = 1
    while True:
        name = stem if n == 1 else f"{stem}-{n}"
        if not sessions.exists(name) and (lock := sessions.locked(name, 0)) is not None:
            if not sessions.exists(name):
                return name, lock
            lock.release()
        n += 1
