"""What the documents say of the interface is what the interface does."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from relaylite.chain.agents import BUILT_IN, load_agents
from relaylite.chain.result import ChainResult
from relaylite.chain.sessions import SessionEntry
from relaylite.cli import COMMANDS
from relaylite.events import Turn
from relaylite.gguf.catalog import load_catalog
from relaylite.metrics import TtftParts, TurnMetrics
from relaylite.settings.settings import load_settings

ROOT = Path(__file__).parent.parent


def named_in(section: str) -> set[str]:
    """The fields that the tables of that section of docs/json.md name."""
    text = (ROOT / "docs" / "json.md").read_text(encoding="utf-8").split(f"## {section}\n")[1].split("\n## ")[0]
    return {name for cell in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)}


def test_json_md_names_every_field_and_no_other() -> None:
    turn = Turn("a", 0, 0, "t", (), "stop", TurnMetrics())
    document = ChainResult("m", "full", (turn,), 1.0, 1.0).to_dict() | {"error": None}
    assert named_in("The document of `relaylite run`") == {*document, *document["agents"][0]}
    assert named_in("The list of `relaylite sessions`") == {field.name for field in dataclasses.fields(SessionEntry)}
    parts = re.search(r"the parts of it: (.*) \|", (ROOT / "docs" / "json.md").read_text(encoding="utf-8"))
    assert parts and set(re.findall(r"`(\w+)`", parts[1])) == {field.name for field in dataclasses.fields(TtftParts)}


def test_the_readme_names_every_command_agent_and_model() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"relaylite {name}" in readme, name
    for agent in BUILT_IN:
        assert f"`{agent.name}`" in readme, agent.name
    assert f"{len(load_catalog())} models" in readme


def test_the_readmes_file_map_is_the_repository() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [tree] = re.findall(r"## Files\n.*?```\n(.*?)```", readme, re.DOTALL)
    listed = [line.split()[0] for line in tree.splitlines() if line.strip()]
    for path in listed:
        assert (ROOT / path).exists(), path
    top = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")} - {"build", "dist"}
    assert {path.split("/")[0] for path in listed} >= {name for name in top if (ROOT / name).is_dir()}


def test_the_examples_of_usage_md_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    agents, settings = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "usage.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "agents.toml").write_text(agents, encoding="utf-8")
    (tmp_path / "relaylite.toml").write_text(settings, encoding="utf-8")
    assert load_agents(tmp_path / "agents.toml")["haiku"].reads == "previous"
    loaded = load_settings({})
    assert {"model", "agents", "settle_after_s", "relay", "store.disk"} == loaded.sources.keys()
    assert {*loaded.sources.values()} == {"relaylite.toml"}
    for name in re.findall(r"`?(RELAYLITE_[A-Z_]+)", settings):
        monkeypatch.setenv(name, "1")
        assert name in load_settings({}).sources.values()


def test_the_example_is_short_and_complete() -> None:
    lines = (ROOT / "example.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 30 and any("Relay(" in line for line in lines)
