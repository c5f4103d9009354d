"""Agents: built-in roles, the user's own, and what is said when a chain cannot be made of the names given."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from relaylite import paths
from relaylite.chain import agents
from relaylite.chain.agents import Agent, choose_agents, load_agents
from relaylite.errors import UsageError


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_built_in_roles_have_distinct_names_and_short_instructions() -> None:
    names = [agent.name for agent in agents.BUILT_IN]
    assert {"plan", "code", "review", "solve", "check"} <= set(names) and len(set(names)) == len(names)
    for agent in agents.BUILT_IN:
        assert len(agent.instructions) < 400 and agent.color in agents.COLORS


def test_the_users_file_adds_agents_and_a_given_file_goes_before_it(tmp_path: Path) -> None:
    write(paths.agents_file(), '[haiku]\ninstructions = "Answer as a haiku."\nreads = "previous"\ncolor = "#ff8800"\n')
    given = write(tmp_path / "mine.toml", '[haiku]\ninstructions = "Two lines."\n[haiku.sampling]\ntemperature = 0.7\nstop = ["END"]\n')
    assert load_agents()["haiku"] == Agent("haiku", "Answer as a haiku.", "previous", {}, "#ff8800")
    assert load_agents(given)["haiku"] == Agent("haiku", "Two lines.", "previous", {"temperature": 0.7, "stop": ["END"]}, "#ff8800")


def test_a_table_changes_only_what_it_states_of_a_built_in_agent(tmp_path: Path) -> None:
    code = load_agents(write(tmp_path / "a.toml", "[code.sampling]\nmax_tokens = 64\n"))["code"]
    assert code == dataclasses.replace(load_agents()["code"], sampling={"max_tokens": 64})


def test_a_chain_may_name_an_agent_twice_and_hold_values() -> None:
    own = Agent("own", "Do it.")
    chain = choose_agents(["plan", own, "plan"])
    assert [agent.name for agent in chain] == ["plan", "own", "plan"] and chain[0] is chain[2]


def test_overrides_go_before_an_agents_own_sampling() -> None:
    agent = Agent("a", "x", sampling={"temperature": 0.5, "top_k": 3})
    assert agent.with_sampling({"temperature": 0.9}).sampling == {"temperature": 0.9, "top_k": 3}
    assert agent.with_sampling({}) is agent


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["reviev"], "unknown agent 'reviev'; did you mean review?"),
        (["PLANN"], "did you mean plan"),
        (["zzz"], "known: plan, code, review"),
        ([], "at least one agent"),
    ],
)
def test_names_that_make_no_chain(names: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("?", r"\?")):
        choose_agents(names)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[x]\nreads = "all"', "[x] has no instructions"),
        ('[x]\ninstructions = "  "', "agent x has no instructions"),
        ('[x]\ninstructions = "i"\nreads = "some"', "agent x reads 'some'; it can read task, previous, all"),
        ('[x]\ninstructions = "i"\nname = "y"', "[x] has an unknown key 'name'"),
        ("[x]\ninstructions = 1", "[x] instructions must be a text"),
        ('[x]\ninstructions = "i"\ncolor = "pink-ish"', "agent x has the color 'pink-ish'"),
        ('[x]\ninstructions = "i"\n[x.sampling]\ntemp = 1', "unknown sampling value 'temp'; known: temperature"),
        ('[x]\ninstructions = "i"\n[x.sampling]\nseed = 1.5', "agent x: seed must be a whole number"),
        ('[x]\ninstructions = "i"\n[x.sampling]\nstop = 1', "stop must be a list of texts"),
        ('[x]\ninstructions = "i"\n[x.sampling]\ntop_p = true', "top_p must be a number from 0 to 1, not True"),
        ('["a b"]\ninstructions = "i"', "agent name 'a b'"),
        ("x = 1", "'x' stands outside a table"),
        ("[x", "Expected"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    file = write(tmp_path / "agents.toml", text)
    with pytest.raises(UsageError) as caught:
        load_agents(file)
    assert str(file) in str(caught.value) and said in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read the agents file .*missing.toml: No such file"):
        load_agents(tmp_path / "missing.toml")
    (tmp_path / "latin.toml").write_bytes(b"[x]\ninstructions = '\xe9'")
    with pytest.raises(UsageError, match="not UTF-8"):
        load_agents(tmp_path / "latin.toml")


def test_a_name_counts_in_any_case_unless_two_differ_in_nothing_else() -> None:
    assert [agent.name for agent in choose_agents(["Plan", "CODE"])] == ["plan", "code"]
    known = {name: Agent(name, "x") for name in ("plan", "Plan")}
    assert [agent.name for agent in choose_agents(["Plan", "plan"], known)] == ["Plan", "plan"]
    with pytest.raises(UsageError, match="did you mean"):
        choose_agents(["PLAN"], known)
