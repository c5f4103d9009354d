"""The self-check passes where relaying works, notices when it does not, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.live_model import LiveModel, opened
from support.reach import EXPECTED
from support.tiny_models import write_model

from relaylite.engine import self_check
from relaylite.engine.cache import Cache, SliceResult
from relaylite.errors import NativeError


@pytest.fixture
def tiny(tmp_path: Path) -> Any:
    with opened(write_model(tmp_path / "m.gguf", "llama")) as live:
        yield live


def run(live: LiveModel) -> str:
    found = self_check.run(live.cache, live.context)
    assert len(live.cache) == 0
    return found


@pytest.mark.parametrize("arch", [arch for arch, expected in EXPECTED.items() if expected.relays])
def test_passes_on_every_architecture_that_relays(arch: str, tmp_path: Path) -> None:
    with opened(write_model(tmp_path / "m.gguf", arch)) as live:
        assert run(live) == ""


@pytest.mark.parametrize("kv_type", ["f32", "bf16", "q8_0", "q4_0"])
@pytest.mark.parametrize("arch", ["llama", "gemma3"])
def test_passes_with_every_type_of_cache(arch: str, kv_type: str, tmp_path: Path) -> None:
    with opened(write_model(tmp_path / "m.gguf", arch), type_k=kv_type, type_v=kv_type) as live:
        assert run(live) == ""


def test_passes_on_the_default_model_and_leaves_a_context_to_work_with(default_model_path: Path) -> None:
    with opened(default_model_path) as live:
        logits = live.decode(live.tokens(5))
        live.cache.truncate(0)
        assert run(live) == ""
        assert np.array_equal(live.decode(live.tokens(5)), logits)


def breaking(monkeypatch: pytest.MonkeyPatch, name: str, change: Any) -> None:
    """Every call of `Cache.name` goes through `change(original, cells, args, kwargs)`."""
    original = getattr(Cache, name)
    monkeypatch.setattr(Cache, name, lambda cells, *args, **kwargs: change(original, cells, args, kwargs))


def test_wrong_rows_are_noticed(tiny: LiveModel, monkeypatch: pytest.MonkeyPatch) -> None:
    breaking(monkeypatch, "slice", lambda original, cells, args, kwargs: original(cells, *args, **spoilt(kwargs)))
    assert run(tiny) == "layers computed apart write other rows than llama_decode"


def spoilt(arguments: dict[str, Any], share: float = 0.2) -> dict[str, Any]:
    """Hidden states that are off by so much, as those of a wrong graph would be."""
    hidden = arguments.get("hidden")
    noise = np.random.default_rng(0).standard_normal
    return arguments if hidden is None else {**arguments, "hidden": hidden + share * hidden.std() * noise(hidden.shape).astype(np.float32)}


def test_wrong_logits_are_noticed(tiny: LiveModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def other_logits(original: Any, cells: Any, args: Any, kwargs: Any) -> SliceResult:
        result: SliceResult = original(cells, *args, **kwargs)
        if result.logits is not None:
            result.logits = np.roll(result.logits, 1)
        return result

    breaking(monkeypatch, "slice", other_logits)
    assert run(tiny) == "layers computed apart give other logits than llama_decode"


def quick_only(change: Any) -> Any:
    """`change(arguments)` of slices that need not be equal bit for bit."""
    return lambda original, cells, args, kwargs: original(cells, *args, **(kwargs if kwargs.get("is_bitwise", True) else change(kwargs)))


def test_rows_of_attention_written_out_wrongly_are_noticed(tiny: LiveModel, monkeypatch: pytest.MonkeyPatch) -> None:
    breaking(monkeypatch, "slice", quick_only(spoilt))
    assert run(tiny) == "attention written out writes other rows than llama_decode"


def test_logits_of_attention_written_out_wrongly_are_noticed(tiny: LiveModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A twentieth of noise, which is less than any wrong graph's, and more than rounding."""
    breaking(monkeypatch, "slice", quick_only(lambda kwargs: spoilt(kwargs, 0.05)))
    assert run(tiny) == "attention written out gives other logits than llama_decode"


@pytest.mark.parametrize("kv_type", ["f32", "f16", "bf16", "q8_0", "q4_0"])
@pytest.mark.parametrize("wrong", [0, self_check.SHIFT - 1, -self_check.SHIFT])
def test_a_wrong_turn_is_noticed(kv_type: str, wrong: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    breaking(monkeypatch, "rotate", lambda f, cells, args, kw: f(cells, args[0], args[1], wrong))
    with opened(write_model(tmp_path / "m.gguf", "llama"), type_k=kv_type, type_v=kv_type) as live:
        assert run(live) == "rows moved by RoPE are not those of the new position"


def test_a_native_failure_is_a_reason(tiny: LiveModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise NativeError("the graph has no node l_out-1")

    breaking(monkeypatch, "slice", fail)
    assert run(tiny) == "the self-check failed: the graph has no node l_out-1"
