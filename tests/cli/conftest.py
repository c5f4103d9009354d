"""Commands through the real entry point, in this process, on a scripted engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.commands import Invoke
from support.fakes import FakeEngine

from relaylite import api
from relaylite.cli import main


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """`invoke("run", "task", input=…)` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()

    def call(*args: str, input: str | bytes | None = None) -> Result:
        return runner.invoke(main, args, input=input, catch_exceptions=False)

    return call


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """What any model opens as, each time anew."""
    engine = FakeEngine()

    def open_again(*_: object, **__: object) -> FakeEngine:
        engine.is_closed = False
        return engine

    monkeypatch.setattr(api, "_open", open_again)
    return engine
