"""Every architecture relays bit-true, or says in one line why not; caches of every type; windows and scales beyond their bounds."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import llama_cpp as lc
import numpy as np
import pytest
from support.live_model import LiveModel, Part, opened
from support.reach import CACHE_TYPES, EXPECTED, GOES_ON, error_of_moved_keys, examine, is_sliced_as_decoded
from support.tiny_models import ARCHITECTURES, write_model

from relaylite.engine import llama, native
from relaylite.engine.cache import Cache

DOCUMENT = Path(__file__).parents[2] / "docs" / "architectures.md"
RELAYING = [arch for arch, expected in EXPECTED.items() if expected.relays]
WINDOWED = ["gemma2", "gemma3", "gpt-oss", "cohere2"]


def test_every_tiny_architecture_is_judged() -> None:
    assert set(EXPECTED) == set(ARCHITECTURES)


@pytest.mark.parametrize("arch", EXPECTED)
def test_an_architecture_relays_or_says_why_not(arch: str, tmp_path: Path) -> None:
    found = examine(write_model(tmp_path / "m.gguf", arch))
    assert found.refusal == EXPECTED[arch].refusal
    assert found.relays == EXPECTED[arch].relays
    if found.can_slice:
        assert found.is_bit_true
    if found.can_rotate:
        assert found.turn_error < 4e-3


@pytest.mark.parametrize(
    ("type_k", "type_v"), [("q8_0", "q8_0"), ("q4_0", "q4_0"), ("q8_0", "f16"), ("f16", "q4_0"), ("bf16", "bf16"), ("f32", "f32")]
)
@pytest.mark.parametrize("arch", ["llama", "stablelm", "gemma3", "gpt-oss"])
def test_slices_are_bit_true_with_every_type_of_cache(arch: str, type_k: str, type_v: str, tmp_path: Path) -> None:
    with opened(write_model(tmp_path / "m.gguf", arch), type_k=type_k, type_v=type_v) as live:
        assert live.cache.info.can_rotate and is_sliced_as_decoded(live)


@pytest.mark.parametrize("arch", WINDOWED)
def test_rows_placed_beyond_the_window_stay_where_they_are(arch: str, tmp_path: Path) -> None:
    """llama.cpp hands out slots that a window hides. Rows that were placed must not be among them."""
    with opened(write_model(tmp_path / "m.gguf", arch)) as live:
        tokens = live.tokens(200)
        live.decode(tokens[:150])
        expected = live.decode(tokens[150:])
        rows = live.live_rows()
        live.cache.truncate(0)
        live.append([Part(100, rows)])
        live.append([Part(50, rows, first=100)])
        assert np.array_equal(live.decode(tokens[150:]), expected)
        assert np.array_equal(live.live_rows().data, rows.data)
        live.cache.truncate(120)
        live.append([Part(30, rows, first=120)])
        assert np.array_equal(live.decode(tokens[150:]), expected)


def assert_slice_is_decode(live: LiveModel, n_before: int, n: int) -> None:
    """`n` tokens behind `n_before` positions of random rows."""
    before, tokens = live.random_rows(n_before), live.tokens(n)
    live.append([Part(n_before, before)])
    expected = live.decode(tokens)
    rows = live.live_rows()
    live.cache.truncate(n_before)
    live.append([Part(n)])
    where = np.arange(n_before, n_before + n, dtype=np.int32)
    got = live.cache.slice((0, live.n_layer), where, tokens=tokens, want=("logits",))
    assert np.array_equal(got.logits, expected)
    assert np.array_equal(live.live_rows().data, rows.data)


def test_chunked_windows_and_scaled_queries_across_their_border(tmp_path: Path) -> None:
    """Llama 4: position 8192 begins a chunk, and queries are scaled from 8191 on."""
    with opened(write_model(tmp_path / "m.gguf", "llama4"), n_ctx=8448) as live:
        assert_slice_is_decode(live, 8182, 20)


def test_scaled_queries_across_their_step(tmp_path: Path) -> None:
    metadata = {"mistral3.rope.scaling.original_context_length": 64}
    with opened(write_model(tmp_path / "m.gguf", "mistral3", metadata=metadata)) as live:
        assert_slice_is_decode(live, 50, 100)


def test_longrope_beyond_its_first_context(tmp_path: Path) -> None:
    with opened(write_model(tmp_path / "m.gguf", "phi3-longrope"), n_ctx=2048) as live:
        assert_slice_is_decode(live, 1010, 40)


@pytest.mark.parametrize("is_hadamard_off", [False, True])
@pytest.mark.parametrize("kv_type", CACHE_TYPES)
def test_moved_keys_are_off_by_their_rounding(
    kv_type: str, is_hadamard_off: bool, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_hadamard_off:
        monkeypatch.setenv("LLAMA_ATTN_ROT_DISABLE", "1")
    assert error_of_moved_keys(tiny_path, kv_type) < CACHE_TYPES[kv_type]


def test_the_document_is_what_the_tests_expect() -> None:
    """Made by `python docs/write architectures`; the figures may differ from machine to machine within the bounds above."""
    rows = [line.strip("| ").split(" | ") for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    judged = {row[0]: row for row in rows if len(row) == 5 and row[0] in EXPECTED}
    refused = {arch: row for arch, row in judged.items() if row[3] in GOES_ON.values()}
    relaying = {arch: row for arch, row in judged.items() if arch not in refused}
    caches = {row[0]: row for row in rows if row[0] in CACHE_TYPES}
    assert list(relaying) == RELAYING and set(refused) == set(EXPECTED) - set(RELAYING) and list(caches) == list(CACHE_TYPES)
    for arch, expected in EXPECTED.items():
        assert judged[arch][1:3] == [expected.stands_for, expected.trait]
    assert all(row[3] == "equal bit for bit" and float(row[4]) < 4e-3 for row in relaying.values())
    assert all(row[3:] == [GOES_ON[EXPECTED[arch].kept_states], EXPECTED[arch].refusal] for arch, row in refused.items())
    assert all(float(row[1]) < CACHE_TYPES[kv_type] for kv_type, row in caches.items())


@contextmanager
def raw_context(path: Path, **params: Any) -> Iterator[int]:
    """The address of a context with settings that the engine never uses."""
    llama.start()
    model = llama.Model(path, n_gpu_layers=0, use_extra_buffers=native.extra_buffers_work())
    p = lc.llama_context_default_params()
    p.n_ctx, p.n_batch, p.n_ubatch, p.n_seq_max, p.kv_unified, p.swa_full = 512, 64, 64, 2, True, True
    p.flash_attn_type, p.n_threads, p.n_threads_batch = lc.LLAMA_FLASH_ATTN_TYPE_ENABLED, 1, 1
    for name, value in params.items():
        setattr(p, name, value)
    context = lc.llama_init_from_model(model.pointer, p)
    assert context
    try:
        yield int(ctypes.cast(context, ctypes.c_void_p).value or 0)
    finally:
        lc.llama_free(context)
        model.close()


@pytest.mark.parametrize(
    ("arch", "params", "reason"),
    [
        ("llama", {"flash_attn_type": lc.LLAMA_FLASH_ATTN_TYPE_DISABLED}, "without flash attention"),
        ("llama", {"kv_unified": False}, "split into streams; open the context with a unified one"),
        ("llama", {"n_seq_max": 1}, "n_seq_max >= 2"),
        ("gemma3", {"swa_full": False}, "differ in size; open the context with swa_full"),
        ("gpt-oss", {"swa_full": False}, "differ in size; open the context with swa_full"),
        ("mamba", {}, "recurrent"),
    ],
)
def test_a_context_of_another_kind_is_refused(arch: str, params: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with raw_context(write_model(tmp_path / "m.gguf", arch), **params) as context, pytest.raises(native.NativeError, match=reason):
        Cache(context, 1, None)


def test_a_context_in_use_is_refused(tiny: LiveModel) -> None:
    tiny.decode(tiny.tokens(3))
    with pytest.raises(native.NativeError, match="the cache must be empty"):
        Cache(tiny.context.address, 1, None)
