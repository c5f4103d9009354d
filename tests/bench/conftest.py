"""A tiny random model, opened once for the tests that measure with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.tiny_models import write_model

from relaylite.engine.engine import Engine
from relaylite.engine.options import EngineOptions


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "llama.gguf", "llama", n_layer=4)


@pytest.fixture(scope="session")
def open_engine(tiny_path: Path) -> Iterator[Engine]:
    engine = Engine.open(tiny_path, EngineOptions(n_ctx=2048, n_threads=1))
    yield engine
    engine.close()


@pytest.fixture
def engine(open_engine: Engine) -> Iterator[Engine]:
    """Llama with four layers; its profile is put back afterwards."""
    profile = open_engine.profile
    yield open_engine
    open_engine.configure(profile)
