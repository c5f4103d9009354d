"""Agents that were edited in the app are kept in the user's agents.toml."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.app_driver import KNOWN, drive, notices, open_dialog, screen_text, scripted_app, until
from support.fakes import FakeEngine
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from relaylite import paths
from relaylite.chain.agents import Agent, load_agents, read_agents
from relaylite.errors import UsageError
from relaylite.tui.agents_toml import with_agents
from relaylite.tui.screens.agents_dialog import AgentsDialog
from relaylite.tui.screens.overwrite_dialog import OverwriteDialog

FILE = '''# my agents
[poet]  # loved
instructions = """
[code]
# no comment
"""
# about color
color = "red"

# what follows is for work
[code.sampling]
seed = 3

[last]
instructions = "Last."
'''


def test_other_tables_and_all_comments_stay_as_they_were(tmp_path: Path) -> None:
    new = with_agents(FILE, [Agent("poet", "Sing\n# loudly.", color="blue"), replace(KNOWN["code"], sampling={"stop": ("END", '"')})])
    path = tmp_path / "agents.toml"
    path.write_text(new, encoding="utf-8")
    read = read_agents(path, KNOWN)
    assert read["poet"] == Agent("poet", "Sing\n# loudly.", color="blue")
    assert (read["code"].sampling, read["last"].instructions) == ({"stop": ["END", '"']}, "Last.")
    for comment in ("# my agents", "# about color", "# what follows is for work"):
        assert new.count(comment) == 1
    assert "# no comment" not in new
    assert new.index("[poet]") < new.index("# what follows") < new.index("[code]") < new.index("[last]")


@given(instructions=st.text(min_size=1).filter(lambda text: text.strip() and max(text) < "\ud800"), temperature=st.floats(0, 10))
@settings(max_examples=60, deadline=None)
def test_any_agent_is_read_back(tmp_path_factory: pytest.TempPathFactory, instructions: str, temperature: float) -> None:
    agent = Agent("mine", instructions, "previous", {"temperature": temperature, "ends_loops": True}, "#a0b0c0")
    path = tmp_path_factory.mktemp("agents") / "agents.toml"
    path.write_bytes(with_agents(FILE, [agent]).encode())
    assert read_agents(path, KNOWN)["mine"] == agent


def test_what_cannot_be_replaced_safely_is_refused() -> None:
    with pytest.raises(UsageError, match="change it by hand"):
        with_agents('code.instructions = "Write."\n', [KNOWN["code"]])
    with pytest.raises(UsageError, match="two different agents are called code"):
        with_agents("", [KNOWN["code"], replace(KNOWN["code"], reads="task")])


def test_edited_agents_are_kept_after_a_look_at_the_change() -> None:
    app = scripted_app(FakeEngine(), ["plan", "code"])
    paths.agents_file().parent.mkdir(parents=True, exist_ok=True)
    paths.agents_file().write_text("# mine\n", encoding="utf-8")

    async def scenario(pilot: Pilot[None]) -> None:
        await open_dialog(pilot, "f4", AgentsDialog)
        await pilot.press("k")
        await until(pilot, lambda: any("as they are known" in each for each in notices(app)))
        app.screen.query_one("#instructions", TextArea).load_text("Plan well.")
        app.screen.query_one("#seed", Input).value = "8"
        await pilot.press("k")
        await until(pilot, lambda: isinstance(app.screen, OverwriteDialog))
        await pilot.pause()
        assert '+instructions = "Plan well."' in screen_text(app)
        await pilot.press("ctrl+d")
        await until(pilot, lambda: isinstance(app.screen, AgentsDialog))
        await until(pilot, lambda: any("Saved to" in each for each in notices(app)))
        assert load_agents()["plan"] == replace(KNOWN["plan"], instructions="Plan well.", sampling={"seed": 8})
        assert paths.agents_file().read_text(encoding="utf-8").startswith("# mine\n")
        assert app.state.known["plan"].instructions == "Plan well."
        assert "[code]" not in paths.agents_file().read_text(encoding="utf-8"), "only what was edited is written"

    drive(app, scenario, size=(80, 24))


def test_a_new_file_is_written_at_once_and_a_damaged_one_is_left_alone() -> None:
    app = scripted_app(FakeEngine(), [Agent("poet", "Write a poem.")])

    async def scenario(pilot: Pilot[None]) -> None:
        await open_dialog(pilot, "f4", AgentsDialog)
        await pilot.press("k")
        await until(pilot, lambda: paths.agents_file().exists())
        assert load_agents()["poet"] == Agent("poet", "Write a poem.")
        paths.agents_file().write_text("[poet\n", encoding="utf-8")
        app.screen.query_one("#instructions", TextArea).load_text("Sing.")
        await pilot.press("k")
        await until(pilot, lambda: any("agents.toml" in each and "Saved" not in each for each in notices(app)))
        assert paths.agents_file().read_text(encoding="utf-8") == "[poet\n"

    drive(app, scenario)
