"""The example of docs/plugins.md, installed: its agents answer and its exporter writes. A broken plugin beside it is one notice."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.commands import Invoke, one_line
from support.fakes import FakeEngine
from support.plugins import put_package

from relaylite import paths
from relaylite.plugins.entry_points import AGENTS, EXPORTERS

PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"


@pytest.fixture
def example(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the page's package is installed, and a broken one beside it."""
    folder = tmp_path_factory.mktemp("site-packages")
    page = PAGE.read_text(encoding="utf-8")
    [toml], [code] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL), re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    named = re.sub(r'project\.entry-points\."(.*?)"', r"\1", toml).replace('"', "")
    put_package(folder, "my_agents", code, named)
    put_package(folder, "broken", "1 / 0", {AGENTS: {"broken": "broken:X"}, EXPORTERS: {"broken": "broken:X"}})
    monkeypatch.syspath_prepend(folder)
    return folder


LEFT_OUT = "note: plugin broken of broken is left out: ZeroDivisionError: division by zero"


def test_its_agents_are_listed_and_answer(invoke: Invoke, engine: FakeEngine, example: Path) -> None:
    listed = invoke("agents", "--json")
    assert {agent["name"]: agent["reads"] for agent in json.loads(listed.stdout)}.items() >= {
        "haiku": "all",
        "limerick": "previous",
    }.items()
    assert listed.stderr.splitlines() == [LEFT_OUT]
    engine.enqueue("Grey waves.", "There once was a sea.")
    done = invoke("run", "-q", "The sea in winter", "--agents", "haiku,limerick")
    assert done.exit_code == 0 and "Grey waves." in done.stdout and "There once was a sea." in done.stdout
    assert done.stderr.splitlines().count(LEFT_OUT) == 1


def test_its_exporter_writes_a_session(invoke: Invoke, engine: FakeEngine, example: Path, tmp_path: Path) -> None:
    engine.enqueue("Grey waves.")
    invoke("chat", "-q", "-a", "plan", "--session", "work", input="The sea\n")
    done = invoke("sessions", "export", "work", "--as", "text", "--output", "work.txt")
    assert (done.exit_code, done.stdout, done.stderr.splitlines()) == (0, "", [LEFT_OUT])
    assert (tmp_path / "work.txt").read_text(encoding="utf-8") == "plan: Grey waves."
    assert invoke("sessions", "export", "work").stdout.endswith("## Message 1\n\n> The sea\n\n### plan\n\nGrey waves.\n")
    exported = json.loads(invoke("sessions", "export", "work", "--as", "json").stdout)
    assert exported == json.loads((paths.sessions_folder() / "work.json").read_text(encoding="utf-8"))


def test_what_cannot_be_exported_is_one_line(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    paths.ensure(paths.sessions_folder())
    (paths.sessions_folder() / "work.json").write_text('{"rounds": [3]}')
    for arguments, said in (
        (("none",), "there is no session 'none'; `relaylite sessions` lists them"),
        (("work",), "this conversation cannot be exported as markdown: KeyError: 'model'"),
        (("work", "--as", "jsn"), "unknown format 'jsn'; did you mean json?"),
        (("work", "--as", "json", "-o", "no/such/file"), "No such file or directory"),
    ):
        done = invoke("sessions", "export", *arguments)
        assert done.exit_code in (1, 2) and said in one_line(done)


def test_doctor_names_the_broken_one(invoke: Invoke, example: Path) -> None:
    found = [each for each in json.loads(invoke("doctor", "--quick", "--json").stdout) if each["name"] == "plugins"]
    assert [each["value"] for each in found] == [LEFT_OUT.removeprefix("note: ")] * 2 and {each["status"] for each in found} == {"note"}
