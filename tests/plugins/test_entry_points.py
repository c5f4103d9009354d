"""Plugins: what loads is there, and what does not is one notice and nothing else."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from support.plugins import put_package

from relaylite.chain.agents import BUILT_IN, Agent, choose_agents, load_agents
from relaylite.errors import UsageError
from relaylite.plugins.entry_points import AGENTS, EXPORTERS, load_plugins
from relaylite.plugins.exporters import export, load_exporters

ONE = 'from relaylite import Agent\nONE = Agent("one", "Say one.")\nTWO = (Agent("two", "Say two."), Agent("three", "Say three."))\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def agents_and_notices() -> tuple[dict[str, Agent], list[str]]:
    notices: list[str] = []
    return load_agents(notify=notices.append), notices


def test_agents_of_a_package_are_known(folder: Path) -> None:
    put_package(folder, "plugin_agents", ONE, {AGENTS: {"a": "plugin_agents:ONE", "b": "plugin_agents:TWO"}})
    known, notices = agents_and_notices()
    assert notices == [] and [*known][len(BUILT_IN) :] == ["one", "two", "three"]
    assert choose_agents(["three"])[0].instructions == "Say three."


def test_the_users_file_may_change_an_agent_of_a_package(folder: Path) -> None:
    put_package(folder, "plugin_changed", ONE, {AGENTS: {"a": "plugin_changed:ONE"}})
    (folder / "agents.toml").write_text('[one]\nreads = "previous"\n')
    assert load_agents(folder / "agents.toml")["one"] == Agent("one", "Say one.", "previous")


@pytest.mark.parametrize(
    ("code", "value", "said"),
    [
        ("import nothing_of_this_name", "X", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("X = 1 / 0", "X", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "X", "SystemExit: 3"),
        ("raise RuntimeError('two\\nlines')", "X", "RuntimeError: two lines"),
        ("def f(:", "X", "SyntaxError: "),
        ("Y = 1", "X", "AttributeError: "),
        ("X = 'plan'", "X", "it should name a relaylite.Agent or a list of them, not str"),
        ("X = [None]", "X", "it should name a relaylite.Agent or a list of them, not NoneType"),
        ("from relaylite import Agent\nX = Agent('', '')", "X", "agent name '': use 1 to 32 letters"),
    ],
)
def test_a_plugin_that_fails_is_one_notice_and_the_others_stay(
    folder: Path, request: pytest.FixtureRequest, code: str, value: str, said: str
) -> None:
    bad = f"plugin_bad_{request.node.callspec.indices['code']}"
    put_package(folder, bad, code, {AGENTS: {"bad": f"{bad}:{value}"}})
    put_package(folder, f"{bad}_good", ONE, {AGENTS: {"good": f"{bad}_good:ONE"}})
    known, notices = agents_and_notices()
    assert "one" in known and len(known) == len(BUILT_IN) + 1
    [notice] = notices
    assert notice.startswith(f"plugin bad of {bad} is left out: {said}") and "\n" not in notice


def test_a_plugin_replaces_nothing(folder: Path) -> None:
    code = 'from relaylite import Agent\nX = [Agent("plan", "Mine."), Agent("one", "First.")]\n'
    put_package(folder, "plugin_a", code, {AGENTS: {"a": "plugin_a:X"}, EXPORTERS: {"json": "builtins:str"}})
    put_package(folder, "plugin_b", ONE, {AGENTS: {"b": "plugin_b:ONE"}})
    known, notices = agents_and_notices()
    assert known["plan"] is BUILT_IN[0] and known["one"].instructions == "First."
    assert notices == [
        "agent plan of plugin_a is left out: there is another agent of this name",
        "agent one of plugin_b is left out: there is another agent of this name",
    ]
    assert load_exporters(notices.append)["json"]({}) == "{}\n"
    assert notices[-1] == "plugin json of plugin_a is left out: there is another exporter of this name"


def test_damaged_metadata_of_any_package_is_one_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: str) -> None:
        raise ValueError("no value\nin line 3")

    monkeypatch.setattr("relaylite.plugins.entry_points.entry_points", fail)
    notices: list[str] = []
    assert load_plugins(AGENTS, lambda found: found, notices.append) == []
    assert notices == ["plugins cannot be looked for: ValueError: no value in line 3"]


def test_scripts_get_a_warning(folder: Path) -> None:
    put_package(folder, "plugin_warns", "X = 1", {AGENTS: {"bad": "plugin_warns:X"}})
    with pytest.warns(UserWarning, match="plugin bad of plugin_warns is left out"):
        choose_agents(["plan"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        choose_agents([BUILT_IN[0]])  # no name to look up


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def X(conversation): return conversation['no']", "cannot be exported as bad: KeyError: 'no'"),
        ("def X(conversation): return b''", "cannot be exported as bad: the exporter gave bytes, not a text"),
    ],
)
def test_an_exporter_that_fails_is_one_line(folder: Path, request: pytest.FixtureRequest, code: str, said: str) -> None:
    module = f"plugin_export_{request.node.callspec.indices['code']}"
    put_package(folder, module, code, {EXPORTERS: {"bad": f"{module}:X"}})
    with pytest.raises(UsageError, match=said):
        export({}, "bad", load_exporters(pytest.fail))


def test_what_is_no_function_exports_nothing(folder: Path) -> None:
    put_package(folder, "plugin_no_function", "X = 3", {EXPORTERS: {"bad": "plugin_no_function:X"}})
    notices: list[str] = []
    assert "bad" not in load_exporters(notices.append)
    assert notices == [
        "plugin bad of plugin_no_function is left out: an exporter is a function that takes a conversation and returns a text, not int"
    ]
