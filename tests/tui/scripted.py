"""A relay for the app's tests: the real chain on the scripted engine of `tests/fakes.py`."""

from __future__ import annotations

from collections.abc import Sequence

from fakes import FakeEngine

from relaylite.agents import BUILT_IN, Agent
from relaylite.api import Relay
from relaylite.config import Settings
from relaylite.policies import NAIVE, Policy
from relaylite.tui.app import RelayApp
from relaylite.tui.backend import OnProgress, Progress, RelayLike
from relaylite.tui.files import History

KNOWN = {agent.name: agent for agent in BUILT_IN}


class ScriptedOpener:
    """Opens `engine`, or fails with `error`; remembers what it was asked for."""

    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine
        self.asked: list[str] = []
        self.locate_error: Exception | None = None
        self.open_error: Exception | None = None

    def locate(self, model: str, on_progress: OnProgress) -> str:
        self.asked.append(model)
        on_progress(Progress("fetching model.gguf", 0.5))
        if self.locate_error is not None:
            raise self.locate_error
        return model

    def open(self, path: str, on_progress: OnProgress) -> RelayLike:
        on_progress(Progress("loading", 1.0))
        if self.open_error is not None:
            raise self.open_error
        self.engine.is_closed = False
        return Relay(policy="naive", engine=self.engine)


def scripted_app(
    engine: FakeEngine | None = None,
    agents: Sequence[str | Agent] = ("plan", "code", "review"),
    policy: Policy = NAIVE,
    history: History | None = None,
    opener: ScriptedOpener | None = None,
) -> RelayApp:
    """The app on a scripted engine."""
    chosen = [agent if isinstance(agent, Agent) else KNOWN[agent] for agent in agents]
    opener = opener or ScriptedOpener(engine or FakeEngine())
    return RelayApp(Settings(), opener, KNOWN, chosen, policy, history or History(None))
