"""Bytes of rows stand for the numbers that ggml reads from them."""

from __future__ import annotations

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants

from relaylite.reuse import row_numbers
from relaylite.reuse.kv_types import F16, KV_TYPES


@pytest.mark.parametrize("name", KV_TYPES)
def test_values_are_those_of_the_reference(name: str) -> None:
    kind = GGMLQuantizationType[name.upper()]
    numbers = np.random.default_rng(0).standard_normal((7, 128)).astype(np.float32)
    data = quants.quantize(numbers, kind).view(np.uint8).reshape(7, -1)
    got = row_numbers.values(data, KV_TYPES[name])
    assert got.dtype == np.float32 and np.array_equal(got, quants.dequantize(data, kind))
    assert np.abs(got - numbers).max() < 0.3


def test_rows_that_are_not_contiguous() -> None:
    wide = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float16).view(np.uint8)
    assert np.array_equal(row_numbers.values(wide[:, :64], F16), wide[:, :64].copy().view(np.float16))
