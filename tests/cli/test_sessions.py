"""Conversations that go on another day: `relaylite chat --session` and `relaylite sessions`."""

from __future__ import annotations

import json
import os
import stat

import pytest
from support.commands import Invoke, one_line
from support.fakes import FakeEngine

from relaylite import paths
from relaylite.chain import sessions
from relaylite.chain.session import Session
from relaylite.errors import RelayliteError, UsageError


def test_a_session_goes_on_where_it_stopped(invoke: Invoke, engine: FakeEngine) -> None:
    engine.enqueue("One.", "Two.")
    assert invoke("chat", "-q", "-a", "plan", "--policy", "prefix", "--session", "work", input="first question\n").exit_code == 0
    result = invoke("chat", "-q", "--session", "work", input="second question\n")
    assert (result.exit_code, result.stdout) == (0, "## plan\nTwo.\n")
    prompt = engine.tokenizer.text(engine.plans[-1].tokens)
    assert prompt.index("first question") < prompt.index("One.") < prompt.index("second question")
    assert engine.plans[-1].policy.name == "prefix"
    assert sessions.sessions()[0].n_rounds == 2


def test_flags_change_who_goes_on_and_how(invoke: Invoke, engine: FakeEngine) -> None:
    engine.enqueue("One.", "Two.")
    invoke("chat", "-q", "-a", "plan", "--policy", "prefix", "--session", "work", input="first\n")
    result = invoke("chat", "-q", "-a", "review", "--policy", "full", "--session", "work", input="second\n")
    assert result.stdout == "## review\nTwo.\n"
    assert engine.plans[-1].policy.name == "full"


def test_the_next_start_takes_over_rows_from_disk(invoke: Invoke, engine: FakeEngine) -> None:
    engine.enqueue("One.", "Two.")
    invoke("chat", "-q", "-a", "plan", "--session", "work", input="first question\n")
    n_first = len(engine.plans[0].tokens)
    invoke("chat", "-q", "--session", "work", input="second question\n")
    prefix = next(iter(engine.plans[-1].segments))
    assert prefix.kind.value == "prefix" and len(prefix) >= n_first


def test_sessions_lists_the_last_changed_first_and_removes(invoke: Invoke, engine: FakeEngine) -> None:
    for name in ("one", "two"):
        invoke("chat", "-q", "-a", "plan,code", "--session", name, input=f"question of {name}\n")
    (paths.sessions_folder() / "bad.json").write_text("{")
    listed = {entry["name"]: entry for entry in json.loads(invoke("sessions", "--json").stdout)}
    assert (listed["one"]["n_rounds"], listed["one"]["agents"], listed["one"]["first_message"]) == (1, ["plan", "code"], "question of one")
    assert listed["bad"]["agents"] == []
    assert "1 message  plan,code  question of two" in invoke("sessions").stdout
    assert "damaged" in invoke("sessions").stdout
    assert invoke("sessions", "rm", "one").stdout == "removed one\n"
    result = invoke("sessions", "rm", "one")
    assert result.exit_code == 2 and one_line(result) == "there is no session 'one'; known: bad, two"


def test_without_sessions_the_list_says_how_to_begin_one(invoke: Invoke) -> None:
    result = invoke("sessions")
    assert (result.exit_code, result.stdout) == (0, "") and "relaylite chat --session NAME" in result.stderr


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "a b", "x" * 65, "a\n", "-rf"])
def test_a_name_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a session"):
        sessions.load(name)
    with pytest.raises(UsageError, match="cannot name a session"):
        sessions.save(name, {})


@pytest.mark.parametrize("content", ["", "{", "[1]", "{}", '{"format": "other"}', "[" * 100_000], ids=range(6))
def test_a_damaged_session_is_one_line_and_stays(invoke: Invoke, engine: FakeEngine, content: str) -> None:
    sessions.save("work", {})
    (paths.sessions_folder() / "work.json").write_text(content)
    result = invoke("chat", "-q", "-a", "plan", "--session", "work", input="hello\n")
    assert result.exit_code == 2 and one_line(result) and engine.plans == []
    assert (paths.sessions_folder() / "work.json").read_text() == content


def test_a_session_without_a_name_is_refused(invoke: Invoke, engine: FakeEngine) -> None:
    result = invoke("chat", "--plain", "--session", "", input="hello\n")
    assert result.exit_code == 2 and one_line(result).startswith("'' cannot name a session")
    assert not engine.plans


def test_neither_a_pipe_nor_a_deep_file_keeps_the_others_from_being_listed(invoke: Invoke, engine: FakeEngine) -> None:
    invoke("chat", "-q", "-a", "plan", "--session", "work", input="question\n")
    os.mkfifo(paths.sessions_folder() / "pipe.json")
    (paths.sessions_folder() / "deep.json").write_text("[" * 100_000)
    listed = {entry["name"]: entry["n_rounds"] for entry in json.loads(invoke("sessions", "--json").stdout)}
    assert listed == {"work": 1, "pipe": 0, "deep": 0}
    result = invoke("chat", "-q", "-a", "plan", "--session", "pipe", input="hello\n")
    assert result.exit_code == 2 and "no regular file" in one_line(result)


def test_only_the_user_may_read_and_saving_leaves_no_second_file() -> None:
    sessions.save("work", {"a": 1})
    sessions.save("work", {"a": 2})
    assert sessions.load("work") == {"a": 2}
    (file,) = paths.sessions_folder().iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_place_that_cannot_be_written_is_one_line() -> None:
    (paths.ensure(paths.sessions_folder()) / "work.json").mkdir()
    with pytest.raises(RelayliteError, match="session work is not saved"):
        sessions.save("work", {})
    assert [path.name for path in paths.sessions_folder().iterdir()] == ["work.json"]


def test_sampling_flags_of_today_go_before_what_was_saved(invoke: Invoke, engine: FakeEngine) -> None:
    for temperature in ("0.7", "0.2"):
        invoke("chat", "-q", "-a", "plan", "-t", temperature, "--session", "work", input="question\n")
    invoke("chat", "-q", "-t", "0.1", "--session", "work", input="question\n")
    invoke("chat", "-q", "--session", "work", input="question\n")
    assert [sampling.temperature for sampling in engine.samplings] == [0.7, 0.2, 0.1, 0.1]


def test_a_session_that_is_open_elsewhere_is_refused_before_a_model_is_opened(invoke: Invoke, engine: FakeEngine) -> None:
    engine.is_closed = True
    with Session("work"):
        result = invoke("chat", "-q", "-a", "plan", "--session", "work", input="question\n")
    assert result.exit_code == 2 and one_line(result).startswith("session work is open in another relaylite") and engine.is_closed
    assert invoke("chat", "-q", "-a", "plan", "--session", "work", input="question\n").exit_code == 0


def test_a_session_is_named_in_the_chat(invoke: Invoke, engine: FakeEngine) -> None:
    result = invoke("chat", "-a", "plan", "--session", "work", input="question\n/name lists\nmore\n")
    assert "session lists\n" in result.stderr
    assert [(entry.name, entry.n_rounds) for entry in sessions.sessions()] == [("lists", 2)]


def test_sessions_are_searched_renamed_removed_and_restored(invoke: Invoke, engine: FakeEngine) -> None:
    engine.enqueue("about the Walrus", "of nothing")
    for name in ("one", "two"):
        invoke("chat", "-q", "-a", "plan", "--session", name, input=f"question of {name}\n")
    assert [entry["name"] for entry in json.loads(invoke("sessions", "--search", "walrus", "--json").stdout)] == ["one"]
    assert "no session holds 'zebra'" in invoke("sessions", "--search", "zebra").stderr
    assert invoke("sessions", "rename", "one", "three").stdout == "renamed one to three\n"
    assert one_line(invoke("sessions", "rename", "three", "two")) == "there is a session two already"
    assert "`relaylite sessions restore three` brings it back" in invoke("sessions", "rm", "three").stderr
    assert invoke("sessions", "restore", "three").stdout == "restored three\n"
    invoke("sessions", "rm", "three", "--forever")
    assert one_line(invoke("sessions", "restore", "three")) == "no session 'three' was removed; removed are: none"
    assert [entry.name for entry in sessions.sessions()] == ["two"]


def test_a_conversation_on_a_terminal_is_kept_by_itself_unless_settings_say_no(
    invoke: Invoke, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    result = invoke("chat", "--plain", "-a", "plan", input="Merge two lists\n/quit\n")
    assert "kept as session merge-two-lists; `relaylite chat --session merge-two-lists` goes on" in result.stderr
    assert [(entry.name, entry.n_rounds) for entry in sessions.sessions()] == [("merge-two-lists", 1)]
    monkeypatch.setenv("RELAYLITE_KEEP", "false")
    assert "kept as" not in invoke("chat", "--plain", "-a", "plan", input="Another\n/quit\n").stderr
    assert len(sessions.sessions()) == 1


def test_a_pipe_is_kept_with_a_name_only(invoke: Invoke, engine: FakeEngine) -> None:
    invoke("chat", "-q", "-a", "plan", input="question\n")
    assert sessions.sessions() == []
