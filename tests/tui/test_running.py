"""Running the chain from the app: states, stopping, failing, retrying, pausing to correct, quitting."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from support.app_driver import ScriptedOpener, ask, drive, drive_from_start, notices, say, screen_text, scripted_app, until
from support.fakes import FakeEngine
from textual.pilot import Pilot
from textual.widgets import TextArea

from relaylite.api import Relay
from relaylite.errors import NativeError
from relaylite.reuse.policies import RELAY
from relaylite.settings.settings import Settings, TuiSettings
from relaylite.tui.app import RelayApp
from relaylite.tui.engine.opener import OnProgress, Progress
from relaylite.tui.screens.dialog import TextDialog


def status_sign(app: RelayApp) -> str:
    """The sign at the start of the status line, which turns while something goes on."""
    return str(app.main.parts.status.render())[:3]


def test_the_strip_says_who_waits_works_and_is_done() -> None:
    engine = FakeEngine()
    engine.enqueue("first answer", "second")
    engine.token_gate.clear()
    app = scripted_app(engine, ["plan", "code"])

    async def scenario(pilot: Pilot[None]) -> None:
        assert app.main.parts.chain.states == ["waiting", "waiting"]
        await say(pilot, "go")
        await until(pilot, lambda: app.main.parts.chain.states[0] in ("reading", "writing"))
        assert app.main.parts.chain.states[1] == "waiting"
        engine.token_gate.set()
        await until(pilot, lambda: app.main.parts.chain.states == ["done", "done"] and not app.state.is_busy)
        engine.token_gate.clear()
        await say(pilot, "again")
        await until(pilot, lambda: app.main.parts.chain.states[1] == "waiting")
        engine.token_gate.set()

    drive(app, scenario)


def test_the_strip_shows_the_stages_of_reuse() -> None:
    engine = FakeEngine()
    engine.enqueue("an answer that is long enough to be relayed to the next agent")
    app = scripted_app(engine, ["plan", "code"], policy=RELAY)
    seen: set[str] = set()

    async def scenario(pilot: Pilot[None]) -> None:
        chip = app.main.parts.chain.chips[1]
        show = chip.show
        chip.show = lambda state, pauses: (seen.add(state), show(state, pauses))[1]  # type: ignore[method-assign]
        await ask(pilot, "go")

    drive(app, scenario)
    assert {"reusing", "repairing", "reading", "writing", "done"} <= seen


def test_esc_stops_a_writing_agent_and_keeps_its_text() -> None:
    engine = FakeEngine()
    engine.enqueue(" ".join(f"word {number}" for number in range(400)))
    engine.token_delay = 0.01
    app = scripted_app(engine, ["plan", "code"])

    async def scenario(pilot: Pilot[None]) -> None:
        await say(pilot, "go")
        await until(pilot, lambda: app.state.current is not None and app.state.current.n_tokens > 10)
        await pilot.press("escape")
        await until(pilot, lambda: not app.state.is_busy)
        record = app.conversation.last
        assert record is not None and record.state == "stopped" and record.text.startswith("word 0 word")
        assert app.main.parts.chain.states == ["stopped", "waiting"]
        assert "stopped" in screen_text(app)

    drive(app, scenario)


def test_esc_stops_during_prefill_and_the_app_goes_on() -> None:
    engine = FakeEngine()
    engine.prefill_gate.clear()
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await say(pilot, "go")
        await until(pilot, engine.in_prefill.is_set)
        await pilot.press("escape")
        await until(pilot, lambda: not app.state.is_busy)
        engine.prefill_gate.set()
        await ask(pilot, "once more")
        assert app.conversation.last is not None and app.conversation.last.state == "done"

    drive(app, scenario)


def test_a_failing_turn_is_a_notice_and_the_app_lives_on() -> None:
    engine = FakeEngine()
    engine.fail("generate", NativeError("the backend [red]ran[/] out of memory"), after_tokens=2)
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await say(pilot, "go")
        await until(pilot, lambda: notices(app))
        assert "the backend [red]ran[/] out of memory" in notices(app)
        await until(pilot, lambda: "ran[/] out of memory" in screen_text(app))
        assert app.main.parts.chain.states == ["failed"]
        await ask(pilot, "again")
        assert app.main.parts.chain.states == ["done"]

    drive(app, scenario)


def test_a_defect_in_the_engine_is_a_notice_too() -> None:
    engine = FakeEngine()
    engine.fail("prefill", ZeroDivisionError("division by zero"))
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await say(pilot, "go")
        await until(pilot, lambda: notices(app))
        assert "ZeroDivisionError" in notices(app)[0]
        await ask(pilot, "again")

    drive(app, scenario)


def test_a_message_that_is_refused_comes_back_into_the_input() -> None:
    app = scripted_app(FakeEngine(n_ctx=1024), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await say(pilot, "x" * 5000)
        await until(pilot, lambda: notices(app))
        assert "context" in notices(app)[0]
        assert app.main.parts.input.text == "x" * 5000
        assert not app.conversation.rounds

    drive(app, scenario)


def test_retry_lets_one_agent_and_those_after_it_answer_again() -> None:
    engine = FakeEngine()
    engine.enqueue("plan one", "code one", "code two", "plan three", "code three")
    app = scripted_app(engine, ["plan", "code"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: [turn.text for turn in app.conversation.turns()] == ["plan one", "code two"])
        await until(pilot, lambda: not app.state.is_busy)
        app.main.parts.transcript.blocks[1].focus()
        await pilot.press("r")
        await until(pilot, lambda: [turn.text for turn in app.conversation.turns()] == ["plan three", "code three"])
        assert [block.source for block in app.main.parts.transcript.blocks] == ["go", "plan three", "code three"]

    drive(app, scenario)


def test_retry_after_a_failure_runs_the_failed_agent() -> None:
    engine = FakeEngine()
    engine.enqueue("plan one", "code one")
    engine.fail("prefill", NativeError("broken"))
    app = scripted_app(engine, ["plan", "code"])

    async def scenario(pilot: Pilot[None]) -> None:
        await say(pilot, "go")
        await until(pilot, lambda: app.main.parts.chain.states[0] == "failed")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: [turn.text for turn in app.conversation.turns()] == ["plan one", "code one"])

    drive(app, scenario)


def test_editing_the_last_message_takes_it_back_into_the_input() -> None:
    engine = FakeEngine()
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "frist try")
        await pilot.press("f8")
        await until(pilot, lambda: not app.conversation.rounds)
        assert app.main.parts.input.text == "frist try"
        app.main.parts.input.load_text("first try")
        await pilot.press("enter")
        await until(pilot, lambda: [each.task for each in app.conversation.rounds] == ["first try"])
        await until(pilot, lambda: not app.state.is_busy)
        assert [block.source for block in app.main.parts.transcript.blocks] == ["first try", "Understood."]

    drive(app, scenario)


def test_the_chain_pauses_and_a_corrected_answer_is_read_but_not_relayed() -> None:
    engine = FakeEngine()
    wrong = "the plan is to sort everything again and again, which is slow but simple to do"
    engine.enqueue(wrong, "done as told")
    app = scripted_app(engine, ["plan", "code"])

    async def scenario(pilot: Pilot[None]) -> None:
        app.state.pauses = frozenset({0})
        await ask(pilot, "go")
        assert app.main.parts.chain.states == ["done", "waiting"]
        await pilot.press("f9")
        await until(pilot, lambda: isinstance(app.screen, TextDialog))
        app.screen.query_one(TextArea).load_text("merge them in one walk")
        await pilot.press("ctrl+d")
        await until(pilot, lambda: app.conversation.rounds[0].turns[0].was_edited)
        await until(pilot, lambda: "merge them in one walk" in screen_text(app) and "sort everything" not in screen_text(app))
        app.main.parts.input.focus()
        await pilot.press("enter")
        await until(pilot, lambda: app.main.parts.chain.states == ["done", "done"])
        record = app.conversation.last
        assert record is not None and record.cells is not None and record.metrics is not None
        answer = next(part for part in record.parts if part.kind == "answer")
        assert answer.text == "merge them in one walk"
        assert record.metrics.span_tokens == 0, "edited text was relayed"
        start = sum(len(part.tokens) for part in record.parts[: record.parts.index(answer)])
        assert (record.cells.cells[:, start : start + len(answer.tokens)] == record.cells.NEW).all()

    drive(app, scenario)


def test_sending_while_the_agents_work_keeps_the_message() -> None:
    engine = FakeEngine()
    engine.token_gate.clear()
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await say(pilot, "go")
        await until(pilot, engine.in_generate.is_set)
        await say(pilot, "and this")
        assert app.main.parts.input.text == "and this"
        assert any("Esc stops" in notice for notice in notices(app))
        engine.token_gate.set()

    drive(app, scenario)


def test_quitting_while_the_model_works_ends_its_thread() -> None:
    engine = FakeEngine()
    engine.token_gate.clear()
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await say(pilot, "go")
        await until(pilot, engine.in_generate.is_set)
        await pilot.press("ctrl+q")

    drive(app, scenario)
    assert engine.is_closed
    assert not app.engine.is_alive()


@pytest.mark.parametrize(("within_s", "quits"), [(3600.0, True), (0.0, False)])
def test_ctrl_c_twice_quits_if_the_second_comes_soon(within_s: float, quits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relaylite.tui.app.QUIT_AGAIN_S", within_s)
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+c")
        assert app._exit is False
        assert not quits or any("Ctrl+C again" in notice for notice in notices(app))
        await pilot.press("ctrl+c")
        assert app._exit is quits

    drive(app, scenario)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_what_runs_and_leaves(number: int) -> None:
    engine = FakeEngine()
    engine.enqueue("an answer that is never finished")
    engine.token_gate.clear()
    app = scripted_app(engine, ["plan"])
    before = signal.signal(number, signal.SIG_IGN)  # without a handler of the app the test fails, not the process

    async def scenario(pilot: Pilot[None]) -> None:
        await say(pilot, "go")
        await until(pilot, engine.in_generate.is_set)
        os.kill(os.getpid(), number)
        await until(pilot, lambda: app._exit)

    try:
        drive(app, scenario)
    finally:
        signal.signal(number, before)
    assert app.return_code == 128 + number and engine.is_closed


def test_a_message_sent_before_the_model_is_open_is_seen_and_then_answered() -> None:
    gate = threading.Event()

    class SlowOpener(ScriptedOpener):
        def open(self, path: str, on_progress: OnProgress) -> Relay:
            on_progress(Progress("checking the loaded model", None))
            assert gate.wait(60)
            return super().open(path, on_progress)

    app = scripted_app(agents=["plan"], opener=SlowOpener(FakeEngine()))

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "checking the loaded model" in screen_text(app))
        before = status_sign(app)
        await until(pilot, lambda: status_sign(app) != before)
        await say(pilot, "hello there")
        await until(pilot, lambda: "hello there" in screen_text(app) and "waits for the model" in screen_text(app))
        gate.set()
        await until(pilot, lambda: app.conversation.last is not None and app.conversation.last.state == "done")
        await until(pilot, lambda: "waits for the model" not in screen_text(app))
        assert [block.source for block in app.main.parts.transcript.blocks] == ["hello there", "Understood."]

    drive_from_start(app, scenario)


def test_the_context_fills_while_an_agent_writes() -> None:
    engine = FakeEngine()
    engine.enqueue(" ".join(map(str, range(1000))))
    engine.token_delay = 0.002
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await say(pilot, "go")
        await until(pilot, lambda: app.state.current is not None and app.state.current.n_tokens > 50)
        record = app.state.current
        assert record is not None and record.metrics is not None
        assert record.context_used >= record.metrics.prompt_tokens + 50
        await until(pilot, lambda: "Context" in screen_text(app) and "context 0" not in screen_text(app))
        assert " 0 of " not in screen_text(app), "the figures say that the context is empty"
        await pilot.press("escape")

    drive(app, scenario, size=(140, 40))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/policy full", "/policy is F5 here."),
        ("/Help", "/Help is Ctrl+X here."),
        ("/quit", "/quit is Ctrl+Q here."),
        ("/save", "/save is “Save conversation” here, which Ctrl+P lists."),
        ("/nosuch", "There is no /nosuch here: Ctrl+P lists the commands, F1 their keys."),
    ],
)
def test_slash_commands_are_not_sent_and_the_app_says_what_it_has_instead(text: str, said: str) -> None:
    engine = FakeEngine()
    app = scripted_app(engine, ["plan"], settings=Settings(tui=TuiSettings(keys={"help": "ctrl+x"})))

    async def scenario(pilot: Pilot[None]) -> None:
        await say(pilot, text)
        await until(pilot, lambda: f"{said} A space before it sends it as a message." in notices(app))
        assert app.main.parts.input.text == text and not engine.plans
        app.main.parts.input.clear()
        await ask(pilot, "/etc/hosts says what?")
        assert len(engine.plans) == 1

    drive(app, scenario)
