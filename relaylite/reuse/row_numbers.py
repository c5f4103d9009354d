"""The numbers that the bytes of a row stand for, for every type that a cache may have, as ggml lays them out (ggml-common.h)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from relaylite.reuse.kv_types import BF16, F16, F32, Q4_0, Q8_0

_BLOCK_BYTES = {Q4_0: 18, Q8_0: 34}  # a scale and 32 values


def values(rows: npt.NDArray[np.uint8], kv_type: int) -> npt.NDArray[np.float32]:
    """float32 `[n, width]` of uint8 `[n, row bytes]`. Where llama.cpp mixes quantized rows by a Hadamard matrix, they stay mixed."""
    data = np.ascontiguousarray(rows)
    if kv_type == BF16:
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if kv_type in (F16, F32):
        return data.view(np.float16 if kv_type == F16 else np.float32).astype(np.float32)
    blocks = data.reshape(len(data), -1, _BLOCK_BYTES[kv_type])
    scale, packed = blocks[..., :2].copy().view(np.float16).astype(np.float32), blocks[..., 2:]
    steps = packed.view(np.int8) if kv_type == Q8_0 else np.concatenate([packed & 15, packed >> 4], axis=-1).astype(np.float32) - 8
    return (scale * steps).reshape(len(data), -1)
