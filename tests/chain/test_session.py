"""A conversation that is kept: after every answer, under a name, by one process at a time."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.fakes import FakeEngine
from support.killed_chain import kill_once
from support.scripted_chain import CODE, PLAN, chain_on

from relaylite import paths
from relaylite.chain import sessions
from relaylite.chain.chain import Chain
from relaylite.chain.conversation import Conversation
from relaylite.chain.session import Session
from relaylite.errors import Cancelled, NativeError, RelayliteError, UsageError
from relaylite.events import ChainStarted, TurnFinished, TurnStarted


def kept_chain(engine: FakeEngine, name: str | None = "work") -> Chain:
    chain = chain_on(engine, PLAN, CODE)
    chain.session = Session(name)
    return chain


def kept(name: str = "work") -> list[list[str]]:
    data = sessions.load(name)
    return [[round["task"], *(turn["text"] for turn in round["turns"])] for round in data["rounds"]] if data else []


def elsewhere(code: str) -> str:
    """What another process says."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_message_and_answers_are_kept_before_they_are_told_of(engine: FakeEngine) -> None:
    engine.enqueue("the plan", "the code")
    chain, seen = kept_chain(engine), []
    for event in chain.stream("Sort."):
        if isinstance(event, ChainStarted | TurnStarted | TurnFinished):
            seen.append(kept()[-1])
    assert seen == [["Sort."], ["Sort."], ["Sort.", "the plan"], ["Sort.", "the plan"], ["Sort.", "the plan", "the code"]]


@pytest.mark.parametrize("how", ["cancelled", "closed"])
def test_an_answer_that_was_stopped_is_kept_as_far_as_it_came(engine: FakeEngine, how: str) -> None:
    engine.enqueue("the plan")
    chain = kept_chain(engine)
    events = chain.stream("Sort.")
    for event in events:
        if getattr(event, "n_tokens", 0) == 3:
            break
    if how == "closed":
        events.close()
    else:
        chain.cancel()
        with pytest.raises(Cancelled):
            list(events)
    assert kept() == [["Sort.", "the"]]


def test_a_run_that_fails_leaves_what_was_finished(engine: FakeEngine) -> None:
    engine.enqueue("the plan", "broken")
    chain = kept_chain(engine)
    with pytest.raises(NativeError):
        for event in chain.stream("Sort."):
            if isinstance(event, TurnFinished):
                engine.fail("prefill", NativeError("decode returned -3"))
    assert kept() == [["Sort.", "the plan"]]


def test_every_change_is_kept_and_so_is_the_way_back(engine: FakeEngine) -> None:
    engine.enqueue("the plan", "the code")
    chain = kept_chain(engine)
    chain.run("Sort.")
    chain.edit(0, 0, "better")
    assert kept() == [["Sort.", "better", "the code"]]
    chain.retry()
    assert kept() == []
    chain.change(Conversation.undo)
    assert kept() == [["Sort.", "better", "the code"]]


def test_nothing_is_written_until_something_was_said(engine: FakeEngine) -> None:
    chain = kept_chain(engine, None)
    assert sessions.sessions() == [] and chain.session.name == ""
    chain.run("Merge two_sorted lists, please! And be quick about it.")
    assert [entry.name for entry in sessions.sessions()] == ["merge-two-sorted-lists-please-and"]


@pytest.mark.parametrize(
    ("message", "name"),
    [("Sort.", "sort-2"), ("¿?", "conversation"), ("Größe Ωμέγα 日本", "größe-ωμέγα-日本"), ("x" * 100, "x" * 40), ("../../etc", "etc")],
)
def test_a_name_is_made_of_the_first_words_and_is_free(engine: FakeEngine, message: str, name: str) -> None:
    sessions.save("sort", {"rounds": []})
    chain = kept_chain(engine, None)
    chain.run(message)
    assert chain.session.name == name and kept(name)[0][0] == message


def test_two_conversations_that_begin_alike_have_two_names(engine: FakeEngine) -> None:
    one, other = kept_chain(engine, None), kept_chain(engine, None)
    one.run("Sort.")
    other.run("Sort.")
    assert (one.session.name, other.session.name) == ("sort", "sort-2")


def test_what_could_not_be_kept_is_said_and_the_answers_go_on(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = kept_chain(engine)

    def full(*_: object) -> None:
        raise RelayliteError("session work is not saved: No space left on device")

    monkeypatch.setattr(sessions, "save", full)
    assert len(chain.run("Sort.").turns) == 2 and "No space left" in chain.result.notices[0]
    with pytest.raises(RelayliteError, match="No space left"):
        chain.edit(0, 0, "other")


# one process at a time


def test_a_second_one_can_only_read_and_is_told_so_before_anything_runs(engine: FakeEngine) -> None:
    chain = kept_chain(engine)
    chain.run("Sort.")
    second = FakeEngine()
    other = chain_on(second, PLAN, CODE)
    other.session = Session("work")
    assert other.session.is_read_only and other.session.saved() == sessions.load("work")
    for call in (lambda: other.run("Mine."), lambda: other.retry(), lambda: other.session.rename("mine"), lambda: other.session.keep({})):
        with pytest.raises(UsageError, match="session work is open in another relaylite"):
            call()
    assert not second.plans and kept() == [["Sort.", "Understood.", "Understood."]]
    chain.session.close()
    assert not Session("work").is_read_only


def test_another_process_is_kept_out_and_a_dead_one_is_not_in_the_way() -> None:
    code = "from relaylite.chain.session import Session; it = Session('work'); print(it.is_read_only, flush=True)"
    first = Session("work")
    assert elsewhere(code) == "True"
    first.close()
    holder = subprocess.Popen([sys.executable, "-c", f"{code}\ninput()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "False\n"
    assert Session("work").is_read_only
    holder.kill()
    holder.wait()
    assert not Session("work").is_read_only


def test_what_a_killed_process_had_begun_to_write_goes() -> None:
    left = paths.ensure(paths.sessions_folder()) / ".work.json.123"
    left.write_text("{")
    Session("work").close()
    assert not left.exists()


# names


def test_a_session_is_renamed_while_it_is_open_and_goes_on(engine: FakeEngine) -> None:
    chain = kept_chain(engine)
    chain.run("Sort.")
    chain.session.rename("lists")
    chain.run("More.")
    assert [entry.name for entry in sessions.sessions()] == ["lists"] and len(kept("lists")) == 2
    assert Session("lists").is_read_only and not Session("work").is_read_only


def test_a_name_that_is_taken_or_no_name_is_refused_and_nothing_changes(engine: FakeEngine) -> None:
    sessions.save("taken", {"rounds": []})
    held = Session("held")
    chain = kept_chain(engine)
    chain.run("Sort.")
    for name in ("taken", "held", "a b"):
        with pytest.raises(UsageError):
            chain.session.rename(name)
    chain.run("More.")
    assert len(kept()) == 2 and held.name == "held" and sessions.load("taken") == {"rounds": []}


def test_a_name_can_be_given_before_anything_is_said(engine: FakeEngine) -> None:
    chain = kept_chain(engine, None)
    chain.session.rename("lists")
    chain.run("Sort.")
    assert kept("lists") == [["Sort.", "Understood.", "Understood."]]


# the folder


def test_what_is_removed_can_be_restored_until_it_is_erased() -> None:
    sessions.save("work", {"rounds": []})
    sessions.remove("work")
    assert sessions.sessions() == [] and sessions.removed() == ["work"]
    sessions.restore("work")
    assert sessions.load("work") == {"rounds": []} and sessions.removed() == []
    sessions.remove("work")
    sessions.save("work", {"rounds": [1]})
    with pytest.raises(UsageError, match="there is a session work again"):
        sessions.restore("work")
    sessions.erase("work")
    for call in (sessions.restore, sessions.erase):
        with pytest.raises(UsageError, match="no session 'work' was removed; removed are: none"):
            call("work")


def test_what_somebody_has_open_is_neither_renamed_nor_removed() -> None:
    sessions.save("work", {"rounds": []})
    holder = Session("work")
    for call in (lambda: sessions.remove("work"), lambda: sessions.rename("work", "mine")):
        with pytest.raises(UsageError, match="session work is open in another relaylite"):
            call()
    holder.close()
    sessions.rename("work", "mine")
    assert sessions.load("mine") == {"rounds": []} and sessions.load("work") is None


def test_sessions_are_found_by_name_messages_and_answers_of_any_branch(engine: FakeEngine) -> None:
    engine.enqueue("with a WALRUS in it", "code", "without", "code")
    chain = kept_chain(engine)
    chain.run("Sort.")
    chain.retry(0)
    list(chain.resume())
    sessions.save("other", {"rounds": []})
    for words, names in (("walrus", ["work"]), ("WORK", ["work"]), ("sort.", ["work"]), ("OTHER", ["other"]), ("zebra", [])):
        assert [entry.name for entry in sessions.sessions(words)] == names
    assert {entry.name: entry.is_open for entry in sessions.sessions()} == {"work": True, "other": False}


def test_only_the_user_may_read() -> None:
    sessions.save("work", {"rounds": []})
    Session("work").close()
    files = [path for path in paths.sessions_folder().rglob("*") if path.is_file()]
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600, 0o600]


# killed


def test_killed_at_random_moments_it_keeps_every_answer_that_was_told_of(tmp_path: Path) -> None:
    """`python -m support.killed_chain` kills more of them."""
    told = [kill_once(seed, tmp_path) for seed in range(4)]
    assert sum(n for n, _ in told) > 0 and [lost for _, lost in told if lost] == []
