"""`relaylite chat` without a terminal: lines in, lines out."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from support.commands import Invoke, one_line
from support.fakes import FakeEngine


def test_each_line_is_a_message_and_agents_keep_their_history(invoke: Invoke, engine: FakeEngine) -> None:
    engine.enqueue("One.", "Two.")
    result = invoke("chat", "-a", "plan", "--policy", "prefix", input="first question\n\n  \nsecond question\n")
    assert (result.exit_code, result.stdout) == (0, "## plan\nOne.\n## plan\nTwo.\n")
    last = engine.tokenizer.text(engine.plans[-1].tokens)
    assert last.index("first question") < last.index("One.") < last.index("second question")
    assert [line.split("]")[0] for line in result.stderr.splitlines()] == ["[plan", "[plan"]


def test_quit_ends_and_the_last_line_needs_no_end(invoke: Invoke, engine: FakeEngine) -> None:
    result = invoke("chat", "-a", "plan", "-q", input="hello\n/quit\nnever asked")
    assert (result.exit_code, len(engine.plans), result.stderr) == (0, 1, "")
    assert len(engine.plans) == 1
    invoke("chat", "-a", "plan", "-q", input="hello")
    assert len(engine.plans) == 2


def test_commands(invoke: Invoke, engine: FakeEngine) -> None:
    engine.enqueue("One.", "Other.")
    result = invoke("chat", "-a", "plan", input="question\n/retry\n/policy full\n/help\n /unknown is a message\n")
    assert result.stdout == "## plan\nOne.\n## plan\nOther.\n## plan\nUnderstood.\n"
    assert "policy full\n" in result.stderr and "/retry answers the last message anew" in result.stderr
    assert "One." not in engine.tokenizer.text(engine.plans[-1].tokens)
    assert [plan.policy.name for plan in engine.plans][-1] == "full"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"/retry", "there is no round to retry yet"),
        (b"/policy best", "unknown policy 'best'; known: full"),
        (b"/polcy full", "there is no /polcy; did you mean /policy? A space before it sends it as a message"),
        (b"/exit", "there is no /exit; did you mean /quit?"),
        (
            b"/xyzzy",
            "there is no /xyzzy; known: /help, /retry, /undo, /redo, /continue, /name, /compare, /policy, /quit. A space before it",
        ),
        (b"\xff", "is not UTF-8 text"),
        (b"x" * 5000, "do not fit the context"),
        (b"read @empty.md", "cannot attach empty.md: it is empty"),
    ],
)
def test_a_line_that_is_wrong_is_one_line_and_the_chat_goes_on(
    invoke: Invoke, engine: FakeEngine, tmp_path: Path, line: bytes, said: str
) -> None:
    (tmp_path / "empty.md").touch()
    result = invoke("chat", "-a", "plan", "-q", input=line + b"\nand now?\n")
    assert said in one_line(result)
    assert result.exit_code == 2, "a script has to see that a line was refused"
    assert result.stdout == "## plan\nUnderstood.\n" and len(engine.plans) == 1


@pytest.mark.parametrize("line", ["/etc/hosts is what?", "/ 2", " /quit"])
def test_what_only_looks_like_a_command_is_a_message(invoke: Invoke, engine: FakeEngine, line: str) -> None:
    result = invoke("chat", "-a", "plan", "-q", input=f"{line}\n")
    assert result.exit_code == 0 and line in engine.tokenizer.text(engine.plans[0].tokens)


def test_policy_without_a_name_says_which_it_is(invoke: Invoke, engine: FakeEngine) -> None:
    assert invoke("chat", "-a", "plan", "-p", "Relay:Fast", input="/policy\n").stderr == "policy relay:fast\n"


def test_a_model_that_cannot_relay_says_so_once_in_a_conversation(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    from relaylite import api

    monkeypatch.setattr(api, "_open", lambda *_, **__: FakeEngine(relay_refusal="it is recurrent"))
    result = invoke("chat", "-a", "plan", input="one\ntwo\n")
    assert result.stdout.count("## plan") == 2 and result.stderr.count("relaying is off for this model: it is recurrent") == 1


def test_ctrl_c_ends_a_chat_that_nobody_watches(invoke: Invoke, engine: FakeEngine) -> None:
    engine.token_gate.clear()

    def interrupt() -> None:
        assert engine.in_generate.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    result = invoke("chat", "-a", "plan", input="hello\nnever asked\n")
    assert result.exit_code == 130 and len(engine.plans) == 1 and one_line(result) == "stopped before anything was written"


def test_wrong_options_are_found_before_a_line_is_read(invoke: Invoke) -> None:
    result = invoke("chat", "-a", "nobody", input="hello\n")
    assert result.exit_code == 2 and "unknown agent 'nobody'" in one_line(result)


def test_files_go_with_messages(invoke: Invoke, engine: FakeEngine, tmp_path: Path) -> None:
    (tmp_path / "first.md").write_text("FIRST FILE")
    (tmp_path / "second.md").write_text("SECOND FILE")
    invoke("chat", "-a", "plan", "--file", "first.md", "--policy", "full", input="hello @nobody\nread @second.md please\n/retry\n")
    asked = [engine.tokenizer.text(plan.tokens) for plan in engine.plans]
    assert ["SECOND FILE" in text for text in asked] == [False, True, True]
    assert [text.count("FIRST FILE") for text in asked] == [1, 1, 1]
    assert "hello @nobody" in asked[0] and "read @second.md please" in asked[1]


def test_a_file_that_is_not_there_is_text_and_said_to_be(invoke: Invoke, engine: FakeEngine, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("SOME NOTES")
    result = invoke("chat", "-a", "plan", "--policy", "full", input="compare @notes.md, @missing.md and @gone\n")
    assert "note: no file here for @missing.md, @gone: sent as text\n" in result.stderr and result.exit_code == 0
    prompt = engine.tokenizer.text(engine.plans[0].tokens)
    assert "SOME NOTES" in prompt and "compare @notes.md, @missing.md and @gone" in prompt


def test_changes_can_be_undone_and_done_again(invoke: Invoke, engine: FakeEngine) -> None:
    engine.enqueue("One.", "Other.", "Last.")
    result = invoke("chat", "-a", "plan", input="question\n/retry\n/undo\nand now?\n")
    assert "the conversation ends with: One." in result.stderr
    prompt = engine.tokenizer.text(engine.plans[-1].tokens)
    assert "One." in prompt and "Other." not in prompt
    result = invoke("chat", "-a", "plan", input="/undo\n")
    assert result.exit_code == 2 and one_line(result) == "there is nothing to undo"
    engine.enqueue("One.", "Other.")
    result = invoke("chat", "-a", "plan", input="question\n/retry\n/undo\n/redo\n")
    assert result.stderr.splitlines()[-1] == "the conversation ends with: Other."


def test_an_answer_that_was_cut_goes_on(invoke: Invoke, engine: FakeEngine) -> None:
    engine.enqueue("first half,", " second")
    result = invoke("chat", "-q", "-a", "plan", "-n", "11", input="/continue\nquestion\n/continue\n/continue\n")
    assert result.stdout == "## plan\nfirst half,\n## plan\n second\n"
    assert [line.removeprefix("relaylite: ") for line in result.stderr.splitlines()] == [
        "there is no answer to go on with yet",
        "plan's answer was not cut; retry it for another one",
    ]


def test_a_retry_at_a_temperature_draws_another_seed(invoke: Invoke, engine: FakeEngine) -> None:
    invoke("chat", "-q", "-a", "plan", "-t", "1.5", input="question\n/retry\n/retry\n")
    assert [sampling.seed for sampling in engine.samplings] == [0, 1, 2]


def test_a_conversation_that_is_not_kept_has_no_name(invoke: Invoke, engine: FakeEngine) -> None:
    result = invoke("chat", "-q", "-a", "plan", input="question\n/name mine\n")
    assert result.exit_code == 2 and "`relaylite chat --session NAME` keeps one" in one_line(result)


def test_compare_says_where_the_answer_under_another_policy_parts(invoke: Invoke, engine: FakeEngine) -> None:
    engine.enqueue("sort it now", "sort at once", "sort it now")
    result = invoke("chat", "-a", "plan", "-q", "-p", "prefix", input="question\n/compare\n/compare Prefix\n/compare best\n")
    lines = result.stdout.splitlines()
    assert lines[2:5] == [
        "[plan] parts from full at token 6; 58% of the tokens stand at the same place",
        "  this answer  sort [i]t now",
        "  full         sort [a]t once",
    ]
    assert lines[5].startswith("  this answer  TTFT ") and lines[6].endswith("prompt reuse 0.00, 0% of the relayed tokens recomputed")
    assert lines[7] == "[plan] the same 11 tokens under prefix" and len(lines) == 10
    assert one_line(result).endswith("unknown policy 'best'; known: full, prefix, naive, relay, relay:fast, relay:balanced, relay:careful")
    assert len(engine.plans) == 3
    assert "there is no answer to compare yet" in invoke("chat", "-a", "plan", input="/compare\n").stderr
