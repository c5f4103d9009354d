"""The mouse does what the keys do; text can be selected; what native code prints goes to the log, not to the screen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.app_driver import ask, drive, scripted_app, until
from support.fakes import FakeEngine
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection

from relaylite.tui.screens.agents_dialog import AgentsDialog
from relaylite.tui.screens.dialog import ChoiceDialog
from relaylite.tui.widgets.chain_strip import AgentChip
from relaylite.tui.widgets.transcript.answer import Answer
from relaylite.tui.widgets.transcript.blocks import TurnHead


def test_a_click_on_an_agent_opens_it_and_one_on_the_policy_its_choice() -> None:
    app = scripted_app(FakeEngine(), ["plan", "code"])

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.click(app.main.query(AgentChip).last())
        await until(pilot, lambda: isinstance(app.screen, AgentsDialog) and app.screen.query("#name"))
        assert app.screen.query_one("#name").value == "code"  # type: ignore[attr-defined]
        await pilot.press("escape")
        await pilot.click("#policy")
        await until(pilot, lambda: isinstance(app.screen, ChoiceDialog))

    drive(app, scenario)


def test_a_click_on_a_title_folds_the_turn() -> None:
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        await pilot.click(TurnHead)
        await until(pilot, lambda: not app.main.query(Answer))
        await pilot.click(TurnHead)
        await until(pilot, lambda: app.main.query(Answer))

    drive(app, scenario)


def test_text_is_selected_with_the_mouse_and_copied_with_ctrl_c() -> None:
    engine = FakeEngine()
    engine.enqueue("first words\n\nsecond paragraph")
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        answer = app.main.query_one(Answer)
        assert answer.get_selection(Selection(Offset(6, 0), Offset(6, 2))) == ("words\n\nsecond", "\n")
        await pilot.mouse_down(answer, offset=(0, 0))
        await pilot.hover(answer, offset=(5, 0))
        await pilot.mouse_up(answer, offset=(5, 0))
        await pilot.press("ctrl+c")
        await until(pilot, lambda: app.clipboard)
        assert app.clipboard.startswith("first") and "second" not in app.clipboard

    drive(app, scenario)


NOISE = """
import os, sys
from pathlib import Path
from relaylite.tui.terminal import owned_terminal
with owned_terminal(Path({log!r})):
    os.write(1, b"native out\\n"); os.write(2, b"native err\\n")
    import logging; logging.getLogger("x").warning("from python")
    sys.__stderr__.write("drawn\\n"); sys.__stderr__.flush()
os.write(1, b"after out\\n"); os.write(2, b"after err\\n"); print("printed")
"""


def test_native_output_goes_to_the_log_while_the_app_owns_the_terminal(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "tui.log"
    code = NOISE.format(log=str(log))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["after out", "printed"]
    assert done.stderr.splitlines() == ["drawn", "after err"]
    logged = log.read_text()
    assert "native out" in logged and "native err" in logged and "from python" in logged and "drawn" not in logged


def test_without_a_terminal_the_app_refuses_in_one_line() -> None:
    code = (
        "from relaylite.settings.settings import Settings; from relaylite.errors import UsageError\n"
        "from relaylite.tui import run_app\n"
        "try:\n    run_app(Settings())\nexcept UsageError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    assert "needs a terminal" in done.stdout and len(done.stdout.splitlines()) == 1
