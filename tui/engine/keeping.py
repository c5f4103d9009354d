"""`Keeper`: the session that the app's conversation is kept in. What the user does to it and to versions, in the engine's thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from relaylite.chain.session import Session
from relaylite.errors import RelayliteError, UsageError
from relaylite.tui.engine import reports

if TYPE_CHECKING:
    from relaylite.chain.chain import Chain
    from relaylite.chain.conversation import Conversation
    from relaylite.tui.engine.jobs import Jobs


class Keeper:
    """`session` keeps the current conversation, None: nothing does. `go_on` gives a conversation that was saved what flags say of it."""

    def __init__(self, session: Session | None = None, *, keeps_new: bool = False, go_on: Callable[[Chain], None] | None = None) -> None:
        """`keeps_new`: whether conversations that begin in the app are kept. Raises UsageError if what the session holds is damaged."""
        self.session = session
        self.saved = session.saved() if session is not None else None
        self.go_on = go_on or (lambda _: None)
        self._keeps_new = keeps_new

    def begin(self) -> None:
        """Another conversation begins, and gets a session of its own."""
        self.switch(Session() if self._keeps_new else None)

    def switch(self, session: Session | None) -> None:
        """Keep the conversation in `session` from now on."""
        self.close()
        self.session = session

    def close(self) -> None:
        """Let others change what was kept."""
        if self.session is not None:
            self.session.close()

    @property
    def state(self) -> reports.InSession:
        """What the user should see of it."""
        return reports.InSession(self.session.name, self.session.is_read_only) if self.session is not None else reports.InSession()


def open_session(jobs: Jobs, name: str, chain: Chain) -> None:
    """Go on with another conversation; the one before stays as it was kept. Raises UsageError if there is none of this name."""
    if chain.session is not None and chain.session.name == name:
        raise UsageError(f"session {name} is open already")
    session = Session(name)
    try:
        saved = session.saved()
        if saved is None or jobs.relay is None:
            raise UsageError(f"there is no session {name}")
        jobs.adopt(jobs.relay.chain_from_dict(saved), session)
    except RelayliteError:
        session.close()
        raise


def rename_session(jobs: Jobs, name: str, chain: Chain) -> None:
    """Raises UsageError if it is not kept, or the name is taken."""
    if chain.session is None:
        raise UsageError("this conversation is not kept, so it has no name")
    chain.session.rename(name)
    jobs.tell_session()


def change(jobs: Jobs, change: Callable[[Conversation], None], place: reports.Place | None, chain: Chain) -> None:
    """Do what `change` does with the conversation, such as `Conversation.undo`, and show it, at `place`."""
    chain.change(change)
    jobs.tell_all(place=place)
