"""`relaylite run` on a scripted engine: what is printed where, and what bad input gives."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.commands import Invoke, one_line
from support.fakes import FakeEngine

from relaylite import paths
from relaylite.cli import interrupts
from relaylite.cli.commands import run


def test_answers_go_to_stdout_and_figures_to_stderr(invoke: Invoke, engine: FakeEngine) -> None:
    engine.enqueue("1. Merge.", "def merge(): ...", "All well.")
    result = invoke("run", "Merge two lists.")
    assert result.exit_code == 0
    assert result.stdout == "## plan\n1. Merge.\n## code\ndef merge(): ...\n## review\nAll well.\n"
    lines = result.stderr.splitlines()
    assert [line.split("]")[0] for line in lines[:3]] == ["[plan", "[code", "[review"]
    assert (
        "= 0 prefix + 0 relayed + " in lines[0]
        and "reuse ratio 0.00, prompt reuse 0.00, TTFT " in lines[0]
        and "wrote 9 tokens at " in lines[0]
    )


def test_relayed_tokens_are_counted(invoke: Invoke, engine: FakeEngine) -> None:
    engine.enqueue("x" * 100)
    result = invoke("run", "Do.", "--agents", "plan,code", "--policy", "naive", "--temperature", "0")
    relayed = re.search(r"\+ (\d+) relayed \+", result.stderr.splitlines()[1])
    assert relayed and 99 <= int(relayed[1]) < 120


def test_nothing_is_said_of_answers_that_are_too_short_to_relay(invoke: Invoke, engine: FakeEngine) -> None:
    """Nothing was lost, and a newcomer's first question is short."""
    engine.enqueue("x" * 20)
    result = invoke("run", "Do.", "-a", "plan,code", "-p", "naive", "--json", "--quiet")
    assert result.stderr == "" and json.loads(result.stdout)["notices"] == []
    engine.enqueue("x" * 20)
    assert "note:" not in invoke("run", "Do.", "-a", "plan,code", "-p", "naive").stderr


@pytest.mark.parametrize(("args", "stdout"), [(["--quiet"], "## plan\nA.\n## code\nB.\n"), (["--quiet", "--last"], "B.\n")])
def test_quiet_and_last(invoke: Invoke, engine: FakeEngine, args: list[str], stdout: str) -> None:
    engine.enqueue("A.", "B.")
    result = invoke("run", "Do.", "-a", "plan,code", *args)
    assert (result.exit_code, result.stdout, result.stderr) == (0, stdout, "")


def test_json_is_one_document_with_the_promised_fields(invoke: Invoke, engine: FakeEngine) -> None:
    engine.enqueue("A.", "B.")
    result = invoke("run", "Do.", "-a", "plan,code", "--policy", "full", "--json", "--quiet")
    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert {"model", "policy", "agents", "wall_ms", "peak_rss_mb", "notices", "error"} == document.keys()
    assert (document["model"], document["policy"], document["error"]) == ("fake", "full", None)
    assert [(agent["name"], agent["text"], agent["finish_reason"]) for agent in document["agents"]] == [
        ("plan", "A.", "stop"),
        ("code", "B.", "stop"),
    ]
    promised = "prompt_tokens prefix_tokens span_tokens computed_tokens reuse_ratio prompt_reuse ttft_ms ttft_parts_ms generated_tokens"
    assert {*promised.split(), "decode_tokens_per_s"} <= document["agents"][0].keys()
    assert document["agents"][0]["ttft_parts_ms"].keys() == {"render", "place", "rectify", "suffix", "sample"}


def test_the_task_comes_from_argument_file_or_standard_input(invoke: Invoke, engine: FakeEngine, tmp_path: Path) -> None:
    (tmp_path / "task.txt").write_text("From a file: ä", encoding="utf-8")
    invoke("run", "From the argument", "-a", "plan")
    invoke("run", "--task-file", "task.txt", "-a", "plan")
    invoke("run", "-a", "plan", input="From standard input")
    invoke("run", "-", "-a", "plan", input="From a dash")
    asked = [engine.tokenizer.text(plan.tokens) for plan in engine.plans]
    for text, wanted in zip(asked, ["From the argument", "From a file: ä", "From standard input", "From a dash"], strict=True):
        assert wanted in text


def test_files_are_read_by_every_agent(invoke: Invoke, engine: FakeEngine, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("The sky is green.")
    result = invoke("run", "What colour?", "-a", "plan,code", "--file", "notes.md", "--json", "-q")
    assert result.exit_code == 0
    assert all("The sky is green." in engine.tokenizer.text(plan.tokens) for plan in engine.plans)
    missing = invoke("run", "What colour?", "--file", "missing.md")
    assert missing.exit_code == 2 and "cannot attach missing.md: No such file" in one_line(missing)


def test_flags_go_before_an_agents_own_sampling_and_files_after_it(invoke: Invoke, engine: FakeEngine, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[own]\ninstructions = "x"\n[own.sampling]\nmax_tokens = 7\ntop_k = 3\n')
    (tmp_path / "relaylite.toml").write_text("top_k = 9\nseed = 5\n")
    invoke("run", "Do.", "-a", "own", "--agents-file", "mine.toml", "--max-tokens", "2")
    [sampling] = engine.samplings
    assert (sampling.max_tokens, sampling.top_k, sampling.seed) == (2, 3, 5)


def test_a_model_that_cannot_relay_says_so(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    from relaylite import api

    monkeypatch.setattr(api, "_open", lambda *_, **__: FakeEngine(relay_refusal="it is recurrent"))
    result = invoke("run", "Do.", "-a", "plan", "--policy", "naive")
    assert "note: relaying is off for this model: it is recurrent" in result.stderr
    quiet = invoke("run", "Do.", "-a", "plan", "--policy", "naive", "--quiet")
    assert quiet.stderr == "note: relaying is off for this model: it is recurrent; running with policy prefix\n"
    assert "it is recurrent" in json.loads(invoke("run", "Do.", "-a", "plan", "--policy", "naive", "--json").stdout)["notices"][0]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["run"], "there is no task"),
        (["run", ""], "the task is empty"),
        (["run", " \n\t"], "the task is empty"),
        (["run", "x\udc80"], "the task is not valid text: character 2 is a lone surrogate"),
        (["run", "x", "--task-file", "y"], "the task is given twice"),
        (["run", "--task-file", "missing.txt"], "cannot read the task file missing.txt: No such file"),
        (["run", "x", "--agents", "pln"], "unknown agent 'pln'"),
        (["run", "x", "--agents", ","], "--agents must be a list of names"),
        (["run", "x", "--agents-file", "missing.toml"], "cannot read the agents file missing.toml"),
        (["run", "x", "--policy", "fast"], "--policy: unknown policy 'fast'; did you mean relay:fast"),
        (["run", "x", "--max-tokens", "many"], "--max-tokens must be an integer"),
        (["run", "x", "--temperature", "-1"], "--temperature must be a number from 0 to 10, not '-1'"),
        (["run", "x", "--ctx", "0"], "--ctx must be an integer of at least 16"),
        (["run", "x", "--threads", "0"], "--threads must be an integer from 1"),
        (["run", "x", "--model", "qwen3-4"], "unknown model 'qwen3-4'; did you mean qwen3-4b"),
        (["run", "x", "--model", "hf:o/r"], "write hf:owner/repo/file.gguf"),
        (["run", "x", "--polcy", "full"], "No such option '--polcy'"),
        (["run", "x", "y"], "unexpected extra argument"),
        (["rnu"], "there is no command 'rnu'; did you mean run?"),
        (["models", "pul"], "there is no command 'pul'; did you mean pull?"),
        (["xyzzy"], "there is no command 'xyzzy'; known: run, chat"),
        (["run", "x", "--max-tokens", "0"], "--max-tokens must be an integer of at least 1, or -1"),
    ],
)
def test_bad_requests_give_one_line_and_exit_code_2(invoke: Invoke, args: list[str], said: str) -> None:
    result = invoke(*args, input="" if args == ["run"] else None)
    assert result.exit_code == 2 and result.stdout == ""
    assert said in one_line(result) or (args == ["run"] and "the task is empty" in one_line(result))


@pytest.mark.parametrize(
    "args",
    [
        ["run", "x", "--policy", "fast"],
        ["run", "x", "--polcy", "full"],
        ["run", "x", "--agents", "nobody"],
        ["run", "--max-tokens"],
        ["rnu", "x"],
        ["info", "missing.gguf"],
        ["agents", "--agents-file", "missing.toml"],
        ["sessions", "--oops"],
        ["bench", "--tasks", "missing"],
    ],
)
def test_with_json_a_bad_request_is_one_document_too(invoke: Invoke, args: list[str]) -> None:
    result = invoke(*args, "--json")
    assert result.exit_code == 2 and json.loads(result.stdout)["error"] == one_line(result)


def test_json_counts_as_an_option_only(invoke: Invoke, engine: FakeEngine) -> None:
    result = invoke("run", "-a", "plan", "--", "--json")
    assert result.stdout.startswith("## plan") and "--json" in engine.tokenizer.text(engine.plans[0].tokens)
    assert invoke("run", "-a", "nobody", "--", "--json").stdout == ""
    assert invoke("run", "x", "--file", "--json").stdout == "", "here it names a file"


def test_bad_model_files_are_bad_requests_too(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "empty.gguf").touch()
    (tmp_path / "text.gguf").write_text("not a model")
    (tmp_path / "folder.gguf").mkdir()
    wanted = {"missing.gguf": "there is no file", "empty.gguf": "is empty", "text.gguf": "not a GGUF file", "folder.gguf": "is a folder"}
    for name, said in wanted.items():
        result = invoke("run", "x", "--model", name)
        assert (result.exit_code, result.stdout) == (2, "")
        assert said in one_line(result)


def test_input_that_is_no_text(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    assert "latin.txt is not UTF-8 text (byte 4)" in one_line(invoke("run", "--task-file", "latin.txt"))
    assert "standard input is not UTF-8 text (byte 1)" in one_line(invoke("run", input=b"\xff"))


def test_a_prompt_beyond_the_context_is_known_before_anything_runs(invoke: Invoke, engine: FakeEngine) -> None:
    result = invoke("run", "x" * 5000)
    assert result.exit_code == 2 and engine.plans == []
    assert "agent plan" in one_line(result) and "4096" in one_line(result)


def test_a_failure_in_json_mode_is_one_document_that_says_why(invoke: Invoke, engine: FakeEngine) -> None:
    result = invoke("run", "", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"] == one_line(result) == "the task is empty; write what the agents shall do"
    from relaylite.errors import NativeError

    engine.enqueue("A.", "Broken.")
    engine.fail("prefill", NativeError("no such layer"))
    result = invoke("run", "Do.", "--json")
    assert result.exit_code == 1 and json.loads(result.stdout)["error"] == "no such layer"
    engine.fail("prefill", ZeroDivisionError("oops"))
    result = invoke("run", "Do.", "--json")
    assert result.exit_code == 1 and json.loads(result.stdout)["error"].startswith("internal error: ZeroDivisionError: oops")


def test_a_defect_gives_one_line_and_keeps_the_traceback(invoke: Invoke, engine: FakeEngine) -> None:
    engine.fail("prefill", ZeroDivisionError("oops"))
    result = invoke("run", "Do.")
    traceback = paths.logs_folder() / "traceback.txt"
    assert result.exit_code == 1
    assert f"internal error: ZeroDivisionError: oops; the traceback is in {traceback}" in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr and "ZeroDivisionError" in traceback.read_text()


def interrupt_when(ready: threading.Event, number: int) -> threading.Thread:
    def wait_and_kill() -> None:
        assert ready.wait(60)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=wait_and_kill)
    thread.start()
    return thread


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("where", ["prefill", "generate"])
def test_signals_stop_a_run_and_keep_what_was_written(invoke: Invoke, engine: FakeEngine, where: str, number: int, code: int) -> None:
    engine.enqueue("First answer.", "never ends")
    before = signal.getsignal(number)

    def stop_second_prefill() -> None:
        engine.harvest = original  # type: ignore[method-assign]
        (engine.prefill_gate if where == "prefill" else engine.token_gate).clear()
        interrupt_when(engine.in_prefill if where == "prefill" else engine.in_generate, number)

    original = engine.harvest
    engine.harvest = lambda origin: (stop_second_prefill(), original(origin))[1]  # type: ignore[method-assign]
    result = invoke("run", "Do.", "-a", "plan,code", "--json", "--quiet")
    document = json.loads(result.stdout)
    assert result.exit_code == code
    assert document["error"] == one_line(result) == "stopped; kept: plan" and document["agents"][0]["text"] == "First answer."
    assert signal.getsignal(number) == before and not interrupts.is_anything_left()


def test_a_stopped_answer_is_kept_and_marked(invoke: Invoke, engine: FakeEngine) -> None:
    engine.enqueue("long " * 500)
    engine.token_delay = 0.002
    seen = threading.Event()
    original = engine._append

    def append(tokens: object) -> None:
        original(tokens)  # type: ignore[arg-type]
        if engine.writer is not None and len(engine.writer.tokens) > 20:
            seen.set()

    engine._append = append  # type: ignore[method-assign,assignment]
    interrupt_when(seen, signal.SIGINT)
    result = invoke("run", "Do.", "-a", "plan")
    assert result.exit_code == 130
    assert result.stdout.startswith("## plan\nlong long long") and result.stdout.endswith("\n")
    assert result.stderr.splitlines()[-2].endswith("(stopped)")
    assert result.stderr.splitlines()[-1] == "relaylite: stopped; kept: plan (cut short)"


def test_a_run_that_is_stopped_before_it_wrote_says_so(invoke: Invoke, engine: FakeEngine) -> None:
    engine.prefill_gate.clear()
    interrupt_when(engine.in_prefill, signal.SIGINT)
    result = invoke("run", "Do.", "-a", "plan", "--json")
    assert (result.exit_code, one_line(result)) == (130, "stopped before anything was written")
    document = json.loads(result.stdout)
    assert document["error"] == "stopped before anything was written" and document["agents"] == []


def test_an_answer_that_was_cut_says_by_what(invoke: Invoke, engine: FakeEngine) -> None:
    engine.enqueue("long " * 2000)
    assert "wrote 3 tokens at " in (cut := invoke("run", "Do.", "-a", "plan", "-n", "3").stderr) and cut.endswith(
        "(cut: max tokens reached)\n"
    )
    engine.enqueue("long " * 2000)
    assert invoke("run", "Do.", "-a", "plan", "-n", "-1", "-t", "0").stderr.endswith("(cut: the context of 4096 is full)\n")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--policy", "full", "--fidelity", "fast"], "--fidelity fast does nothing with the policy full"),
        (["--policy", "relay:fast", "--fidelity", "careful"], "--fidelity careful and the policy relay:fast name two fidelities"),
        (["--last", "--json"], "--last does nothing with --json"),
    ],
)
def test_options_that_do_nothing_together_are_refused(invoke: Invoke, engine: FakeEngine, args: list[str], says: str) -> None:
    result = invoke("run", "Do.", *args)
    assert result.exit_code == 2 and says in one_line(result) and not engine.plans


def test_a_fidelity_of_a_file_does_not_forbid_a_policy(invoke: Invoke, engine: FakeEngine, tmp_path: Path) -> None:
    (tmp_path / "relaylite.toml").write_text('fidelity = "fast"')
    assert invoke("run", "Do.", "-p", "full").exit_code == 0
    assert invoke("run", "Do.", "--fidelity", "careful", "-p", "relay:careful").exit_code == 0


UNREAD = "from relaylite.cli.tasks import *; print(has_unread_input(), len(read_task({task}, None)), has_unread_input())"


@pytest.mark.parametrize(("task", "seen"), [("None", "True 6 False\n"), ("'Do.'", "True 3 True\n")])
def test_input_that_nobody_reads_is_noticed(tmp_path: Path, task: str, seen: str) -> None:
    command = [sys.executable, "-c", UNREAD.format(task=task)]
    (tmp_path / "input").write_text("a task")
    with (tmp_path / "input").open() as file:
        assert subprocess.check_output(command, stdin=file, text=True) == seen
    reader, writer = os.pipe()
    os.write(writer, b"a task")
    os.close(writer)
    assert subprocess.check_output(command, stdin=reader, text=True) == seen
    os.close(reader)


def test_a_run_says_that_it_leaves_input_unread(invoke: Invoke, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "has_unread_input", lambda: True)
    assert "note: standard input is not read, since the task is given" in invoke("run", "Do.", "-a", "plan").stderr
