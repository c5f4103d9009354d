"""Real models on which relaying is refused, each for another reason, and what a run has to say of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from relaylite.engine.cache import Cache
from support.reach import EXPECTED
from support.tiny_models import write_model

REASONS = {
    "mamba": EXPECTED["mamba"].refusal,
    "deepseek2": EXPECTED["deepseek2"].refusal,
    "self-check": "rows moved by RoPE are not those of the new position",
}
NOTICE = "relaying is off for this model: {}; running with policy prefix"


def refusing_model(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that opens, and then cannot relay for `REASONS[kind]`."""
    if kind == "self-check":
        turn = Cache.rotate

        def too_far(cells: Cache, start: int, end: int, delta: int) -> Any:
            return turn(cells, start, end, delta + 1)

        monkeypatch.setattr(Cache, "rotate", too_far)
    return write_model(folder / "m.gguf", "llama" if kind == "self-check" else kind)
