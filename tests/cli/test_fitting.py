"""Which models fit this machine, and the one line that the first run ends with."""

from __future__ import annotations

import json

import pytest
from support.commands import Invoke
from support.fakes import FakeEngine

from relaylite.cli import fitting
from relaylite.gguf.catalog import load_catalog


@pytest.fixture(autouse=True)
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """4 GB of memory are free, and somebody reads what is said."""
    monkeypatch.setattr(fitting, "available_bytes", lambda: 4_000_000_000)
    monkeypatch.setattr(fitting, "is_read", lambda: True)


def hints(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if "models pull" in line]


def test_the_first_run_says_once_which_model_is_better(invoke: Invoke, engine: FakeEngine) -> None:
    engine.enqueue("A.", "B.")
    [hint] = hints(invoke("run", "Do.", "-a", "plan").stderr)
    assert "qwen3-4b" in hint and "`relaylite models pull qwen3-4b` fetches it (2.5 GB)" in hint
    assert not hints(invoke("run", "Do.", "-a", "plan").stderr)


def test_nothing_is_suggested_where_nobody_reads_it(invoke: Invoke, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "is_read", lambda: False)
    assert not hints(invoke("run", "Do.", "-a", "plan").stderr)


def test_little_memory_gets_a_smaller_one_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for free, name in ((3_000_000_000, "llama-3.2-3b"), (1_500_000_000, "qwen3-0.6b"), (64_000_000_000, "qwen3-4b")):
        monkeypatch.setattr(fitting, "available_bytes", lambda free=free: free)
        assert (found := fitting.suggested()) is not None and found.name == name
    monkeypatch.setattr(fitting, "available_bytes", lambda: 700_000_000)
    assert fitting.suggested() is None


@pytest.mark.parametrize("args", [("--json",), ("--quiet",), ("--model", "smollm2-135m")])
def test_nothing_is_suggested_to_programs_or_to_who_named_a_model(invoke: Invoke, engine: FakeEngine, args: tuple[str, ...]) -> None:
    engine.enqueue("A.")
    result = invoke("run", "Do.", "-a", "plan", *args)
    assert result.exit_code == 0 and not hints(result.stderr) and "models pull" not in result.stdout


def test_the_list_marks_what_fits(invoke: Invoke) -> None:
    listed = {entry["name"]: entry["fits"] for entry in json.loads(invoke("models", "list", "--json").stdout)}
    assert listed["qwen3-4b"] and not listed["qwen3-14b"]
    lines = invoke("models", "list").stdout.splitlines()
    marked = {line.split()[1] for line in lines[1:] if "+" in line[:2]}
    assert marked == {name for name in load_catalog() if listed[name]}
