"""A trial when a model is opened: do layer slices and rotated rows agree with llama_decode on this model, on this machine?

It costs one decode and one and a half slices of eight tokens.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from relaylite.engine.cache import Cache
from relaylite.engine.llama import Context
from relaylite.errors import ModelError, NativeError
from relaylite.reuse import kv_types
from relaylite.reuse.plan import Kind, Segment
from relaylite.reuse.row_numbers import values
from relaylite.reuse.rows import Tokens

N_TOKENS = 8
SHIFT = 5
# Differences are root mean squares, as a share. On the CPU slices are equal bit for bit. A device may fuse other operations, which rounds
# in another way. A wrong graph is off by 0.1 and more.
SLICE_TOLERANCE = 0.02
# Slices that need not be equal bit for bit round in another way in every layer. llama_decode does so too for batches of other shapes, so
# what they write counts as exact. Measured: at most 0.007 of the logits and 0.034 of a layer's rows (SmolLM2; 0.001 in tiny models).
QUICK_LOGITS_TOLERANCE = 0.03
QUICK_ROWS_TOLERANCE = 0.1
# A moved row was rounded to the cache's type twice. A row that was not moved is off by 0.3 and more.
ROTATION_TOLERANCE = {kv_types.F32: 0.01, kv_types.F16: 0.01, kv_types.BF16: 0.02, kv_types.Q8_0: 0.03, kv_types.Q4_0: 0.2}

F32 = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]


def run(cache: Cache, context: Context) -> str:
    """Why relaying must be off for this model, "" if it works. The live sequence must be empty, and is empty afterwards.

    Raises ModelError if llama.cpp itself computes no numbers with it: its weights, or an adapter's, are damaged or too large.
    """
    try:
        return _slices(cache, context) or _rotation(cache)
    except NativeError as error:
        return f"the self-check failed: {error}"
    finally:
        cache.truncate(0)


def _tokens(cache: Cache) -> Tokens:
    """Ids spread over the vocabulary."""
    return (np.arange(1, N_TOKENS + 1, dtype=np.int64) * 7919 % cache.info.n_vocab).astype(np.int32)


def _slices(cache: Cache, context: Context) -> str:
    """One slice, cut in the middle, against llama_decode on the same batch."""
    tokens, where, n_layer = _tokens(cache), np.arange(N_TOKENS, dtype=np.int32), cache.info.n_layer
    cut = n_layer // 2
    cache.mark(N_TOKENS - 1)
    if context.decode(tokens, 0) != 0:
        return "llama.cpp could not decode the self-check's tokens"
    cache.check(N_TOKENS - 1)
    logits, rows = context.logits(), cache.read(0, N_TOKENS)
    if np.isnan(logits).any():
        raise ModelError("llama.cpp computes no numbers with these weights: the model or an adapter is damaged, or its scale too large")
    cache.truncate(0)
    cache.append([Segment(0, N_TOKENS, Kind.NEW)])
    hidden = cache.slice((0, cut), where, tokens=tokens, want=("hidden",)).hidden if cut > 0 else None
    above = cache.slice((cut, n_layer), where, tokens=tokens, hidden=hidden, want=("logits",))
    assert above.logits is not None  # asked for
    if max(_row_differences(cache, rows, cache.read(0, N_TOKENS))) > SLICE_TOLERANCE:
        return "layers computed apart write other rows than llama_decode"
    if _difference(logits, above.logits) > SLICE_TOLERANCE:
        return "layers computed apart give other logits than llama_decode"
    quick = cache.slice((cut, n_layer), where, tokens=tokens, hidden=hidden, want=("logits",), is_bitwise=False)
    assert quick.logits is not None
    if max(_row_differences(cache, rows, cache.read(0, N_TOKENS))) > QUICK_ROWS_TOLERANCE:
        return "attention written out writes other rows than llama_decode"
    if _difference(logits, quick.logits) > QUICK_LOGITS_TOLERANCE:
        return "attention written out gives other logits than llama_decode"
    return ""


def _rotation(cache: Cache) -> str:
    """K of layer 0 depends on token and position alone: moved rows against rows computed at their place."""
    tokens = _tokens(cache)
    cache.truncate(0)
    cache.append([Segment(0, SHIFT + N_TOKENS, Kind.NEW)])
    cache.slice((0, 0), np.arange(N_TOKENS, dtype=np.int32), tokens=tokens, write_end=1)
    cache.rotate(0, N_TOKENS, SHIFT)
    moved = cache.read(0, N_TOKENS)
    cache.slice((0, 0), np.arange(SHIFT, SHIFT + N_TOKENS, dtype=np.int32), tokens=tokens, write_end=1)
    placed = cache.read(SHIFT, SHIFT + N_TOKENS)
    k_of_layer_0 = _row_differences(cache, moved, placed)[0]
    is_close = k_of_layer_0 <= ROTATION_TOLERANCE[cache.info.type_k]
    return "" if is_close else "rows moved by RoPE are not those of the new position"


def _row_differences(cache: Cache, a: Bytes, b: Bytes) -> list[float]:
    """Of each layer's K, then of each layer's V."""
    sizes = [*cache.k_bytes, *cache.v_bytes]
    types = [cache.info.type_k] * len(cache.k_bytes) + [cache.info.type_v] * len(cache.v_bytes)
    ends = np.cumsum([0, *sizes]) * (len(a) // sum(sizes))
    rows = [
        (a[start:end].reshape(-1, size), b[start:end].reshape(-1, size)) for start, end, size in zip(ends, ends[1:], sizes, strict=False)
    ]
    return [_difference(values(of_a, kv_type), values(of_b, kv_type)) for (of_a, of_b), kv_type in zip(rows, types, strict=True)]


def _difference(a: F32, b: F32) -> float:
    if np.array_equal(a, b):
        return 0.0
    difference = float(np.linalg.norm(a - b) / max(float(np.linalg.norm(a)), 1e-30))
    return difference if np.isfinite(difference) else float("inf")
