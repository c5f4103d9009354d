"""Layers spread over two backends: where they really lie, and that windowed models and mixtures of experts relay however that is."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from support.live_model import opened
from support.places import Place
from support.reach import is_sliced_as_decoded
from support.tiny_models import write_model

from relaylite.engine import self_check


def test_rows_lie_where_they_should(place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """llama.cpp's own report of its buffers: else these tests would show nothing."""
    if place.name == "cpu":
        pytest.skip("nothing is offloaded here")
    caplog.set_level(logging.DEBUG, "relaylite")
    with place.of_model(4) as options, opened(write_model(tmp_path / "m.gguf", "llama", n_layer=4), **options):
        lines = [record.getMessage() for record in caplog.records if "KV buffer size" in record.getMessage()]
    on_cpu = [line for line in lines if " CPU" in line]
    assert len(lines) > len(on_cpu), lines
    assert bool(on_cpu) == place.is_half, lines


@pytest.mark.parametrize("arch", ["gemma3", "gpt-oss", "llama4", "qwen3moe"])
@pytest.mark.parametrize("n_on_cpu", [0, 1, 2])
def test_windows_and_experts_relay_however_the_layers_are_spread(arch: str, n_on_cpu: int, place: Place, tmp_path: Path) -> None:
    """The scheduler's copies of two masks have the same name on every device."""
    if place.name not in ("gpu", "worker"):
        pytest.skip("the layers are spread by this test itself")
    with place.of_model(3) as options, opened(write_model(tmp_path / "m.gguf", arch), **options | {"n_gpu_layers": 3 - n_on_cpu}) as live:
        assert live.cache.refusal == ""
        assert self_check.run(live.cache, live.context) == ""
        if place.is_bitwise:
            assert is_sliced_as_decoded(live)
