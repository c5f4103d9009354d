"""Models that the native tests share; each is opened once and given out with an empty live sequence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.live_model import LiveModel, opened
from support.tiny_models import write_model


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "llama.gguf", "llama")


@pytest.fixture(scope="session")
def open_tiny(tiny_path: Path) -> Iterator[LiveModel]:
    with opened(tiny_path) as live:
        yield live


@pytest.fixture
def tiny(open_tiny: LiveModel) -> LiveModel:
    """Llama with three layers; F16 cache of 512 slots, batches of 128."""
    open_tiny.stop.set(False)
    open_tiny.capture.watch({})
    open_tiny.cache.truncate(0)
    return open_tiny


@pytest.fixture(scope="session")
def open_default(default_model_path: Path) -> Iterator[LiveModel]:
    with opened(default_model_path) as live:
        yield live


@pytest.fixture
def default(open_default: LiveModel) -> LiveModel:
    """The bundled SmolLM2-135M."""
    open_default.capture.watch({})
    open_default.cache.truncate(0)
    return open_default
