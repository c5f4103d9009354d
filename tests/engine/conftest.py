"""Engines that the tests of this folder share; each is opened once and given out with an empty live sequence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.live_engine import LiveEngine, home_of_session, opened
from support.tiny_models import write_model


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Llama with four layers and F32 weights."""
    return write_model(tmp_path_factory.mktemp("models") / "tiny.gguf", "llama", n_layer=4, weights="F32")


@pytest.fixture(scope="session")
def open_tiny(tiny_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveEngine]:
    with home_of_session(tmp_path_factory), opened(tiny_path, kv_type="f32") as live:
        yield live


@pytest.fixture
def tiny(open_tiny: LiveEngine) -> LiveEngine:
    """Rows of F32: what differs, differs for a reason. 2,048 cells, batches of 512."""
    open_tiny.reset()
    return open_tiny


@pytest.fixture(scope="session")
def open_default(default_model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveEngine]:
    with home_of_session(tmp_path_factory), opened(default_model_path, n_ctx=1024) as live:
        yield live


@pytest.fixture
def default(open_default: LiveEngine) -> LiveEngine:
    """The bundled SmolLM2-135M with rows of F16."""
    open_default.reset()
    return open_default
