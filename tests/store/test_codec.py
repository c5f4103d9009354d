"""Smaller codecs of rows: what they cost in bytes and in truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from relaylite.store.codec import CODECS, Mixed, hadamard

# the error that rounding gaussian values may leave, as a share of their size
LOSS = {8: 0.006, 6: 0.025, 4: 0.1}


def f16_rows(n: int, width: int, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal((n, width)).astype(np.float16)
    return values.view(np.uint8).reshape(n, 2 * width)


def loss(rows: np.ndarray, decoded: np.ndarray) -> float:
    a, b = rows.view(np.float16).astype(np.float32), decoded.view(np.float16).astype(np.float32)
    return float(np.linalg.norm(a - b) / np.linalg.norm(a))


@pytest.mark.parametrize("bits", LOSS)
@pytest.mark.parametrize("width", [32, 64, 96, 192])
def test_a_round_trip_loses_no_more_than_its_bits_explain(bits, width):
    codec = Mixed(bits)
    rows = f16_rows(50, width)
    encoded = codec.encode(rows)
    assert encoded.shape == (50, codec.encoded_bytes(2 * width)) == (50, width // 32 * (2 + 4 * bits))
    decoded = codec.decode(encoded, 2 * width)
    assert decoded.shape == rows.shape and decoded.dtype == np.uint8
    assert loss(rows, decoded) < LOSS[bits]


@pytest.mark.parametrize("bits", LOSS)
def test_one_large_value_does_not_spoil_its_block(bits):
    values = np.random.default_rng(1).standard_normal((200, 64)).astype(np.float16)
    values[:, 5] = 60
    rows = values.view(np.uint8)
    decoded = Mixed(bits).decode(Mixed(bits).encode(rows), 128)
    error = decoded.view(np.float16).astype(np.float32) - values
    step_without_rotation = 60 / (1 << (bits - 1))
    assert np.sqrt(np.mean(error[:, 6:] ** 2)) < step_without_rotation / np.sqrt(12) / 2


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.float16, (3, 64), elements=st.floats(-1000, 1000, width=16)), st.sampled_from(sorted(LOSS)))
def test_no_value_strays_further_than_a_step_of_its_block(values, bits):
    rows = values.view(np.uint8)
    decoded = Mixed(bits).decode(Mixed(bits).encode(rows), 128).view(np.float16).astype(np.float32)
    rotated = values.astype(np.float32) @ hadamard(64)
    step = np.abs(rotated).max(axis=1, keepdims=True) / (1 << (bits - 1))
    drift = np.abs(decoded @ hadamard(64) - rotated)
    assert (drift <= step * 1.02 + np.abs(rotated).max() * 2e-3 + 1e-6).all()


def test_zero_rows_stay_zero():
    rows = np.zeros((2, 128), np.uint8)
    for bits in LOSS:
        assert not Mixed(bits).decode(Mixed(bits).encode(rows), 128).view(np.float16).any()


def test_rows_that_are_no_whole_blocks_are_refused():
    with pytest.raises(ValueError, match="whole blocks"):
        Mixed(8).encode(np.zeros((1, 40), np.uint8))


@pytest.mark.parametrize(("name", "ratio"), [("plain", 1.0), ("q8", 1.88), ("q8-q4", 2.46), ("q6-q4", 2.9), ("q4", 3.55)])
def test_how_much_smaller_each_codec_is(name, ratio):
    codec = CODECS[name]
    smaller = codec.k.encoded_bytes(384) + codec.v.encoded_bytes(384)
    assert 768 / smaller == pytest.approx(ratio, abs=0.01)
