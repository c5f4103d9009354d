"""A relay for the app's tests: the real chain on the scripted engine of `tests/support/fakes.py`."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from textual.pilot import Pilot

from relaylite.api import Relay
from relaylite.chain.agents import BUILT_IN, Agent
from relaylite.chain.attachments import Attachment
from relaylite.chain.session import Session, go_on_with
from relaylite.reuse.policies import NAIVE, Policy
from relaylite.settings.settings import Settings
from relaylite.tui.app import RelayApp
from relaylite.tui.engine.keeping import Keeper
from relaylite.tui.engine.opener import OnProgress, Opener, Progress
from relaylite.tui.engine.thread import EngineThread
from relaylite.tui.files import History
from relaylite.tui.run_state import RunState
from support.fakes import FakeEngine

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

    def open(self, path: str, on_progress: OnProgress) -> Relay:
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
    opener: Opener | None = None,
    settings: Settings | None = None,
    session: Session | None = None,
    files: Sequence[Attachment] = (),
) -> RelayApp:
    """The app on a scripted engine."""
    chosen = [agent if isinstance(agent, Agent) else KNOWN[agent] for agent in agents]
    opener = opener or ScriptedOpener(engine or FakeEngine())
    settings = settings or Settings()
    keeper = Keeper(session, keeps_new=session is not None, go_on=partial(go_on_with, settings=settings))
    engine_thread = EngineThread(opener, chosen, policy, keeper)
    state = RunState(tuple(chosen), policy, KNOWN, tuple(files))
    return RelayApp(settings, engine_thread, state, history or History(None))


async def until(pilot: Pilot[None], condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Let the app work until the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not reached within {seconds} s: {inspect.getsource(condition).strip()}")
        await pilot.pause(0.01)


def drive(app: RelayApp, scenario: Callable[[Pilot[None]], Awaitable[None]], size: tuple[int, int] = (100, 30)) -> None:
    """Start the app, wait for its model, and carry out the scenario. What the app raises is raised here."""

    async def when_open(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.state.info is not None)
        await scenario(pilot)

    drive_from_start(app, when_open, size)


def drive_from_start(app: RelayApp, scenario: Callable[[Pilot[None]], Awaitable[None]], size: tuple[int, int] = (100, 30)) -> None:
    """The same, without waiting for the model."""

    async def session() -> None:
        async with app.run_test(size=size, notifications=True) as pilot:
            await scenario(pilot)
        assert app.engine.close(60.0), "the engine's thread did not end"

    asyncio.run(session())


async def say(pilot: Pilot[None], text: str) -> None:
    """Type a message and send it."""
    app = pilot.app
    assert isinstance(app, RelayApp)
    app.main.parts.input.focus()
    app.main.parts.input.insert(text)
    await pilot.press("enter")


async def ask(pilot: Pilot[None], text: str) -> None:
    """Send a message and wait until every agent has answered, or the chain paused or stopped."""
    app = pilot.app
    assert isinstance(app, RelayApp)
    before = len(app.conversation.rounds)
    await say(pilot, text)
    await until(pilot, lambda: len(app.conversation.rounds) > before)
    await until(pilot, lambda: not app.state.is_busy)
    await pilot.pause()


async def open_dialog(pilot: Pilot[None], key: str, kind: type) -> None:
    """Press `key` and wait for the screen of that kind."""
    await pilot.press(key)
    await until(pilot, lambda: isinstance(pilot.app.screen, kind))
    await pilot.pause()


def notices(app: RelayApp) -> list[str]:
    """What the app told the user, oldest first."""
    return [notice.message for notice in app._notifications]


def screen_text(app: RelayApp) -> str:
    """The characters on the screen, without colours."""
    return "\n".join("".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips())
