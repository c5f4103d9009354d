"""What llama.cpp does by itself: a greedy loop on the low-level API of llama-cpp-python, and the rows that its own state data hold."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import llama_cpp as lc
import numpy as np

from relaylite.engine import llama, native
from relaylite.reuse.kv_types import KV_TYPES
from relaylite.reuse.rows import RowLayout, Rows


def greedy(
    path: Path,
    prompt: Sequence[int],
    n: int,
    *,
    n_ctx: int,
    n_batch: int = 512,
    kv_type: str = "f16",
    lora: tuple[Path, float] | None = None,
) -> tuple[list[int], bytes]:
    """`n` tokens behind `prompt`, and the state data of the sequence then (the last token is not decoded). `lora`: adapter and scale."""
    llama.start()
    of_model = lc.llama_model_default_params()
    of_model.use_extra_bufts = native.extra_buffers_work()
    model = lc.llama_model_load_from_file(str(path).encode(), of_model)
    adapter = lc.llama_adapter_lora_init(model, str(lora[0]).encode()) if lora else None
    params = lc.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch, params.n_threads, params.n_threads_batch = n_ctx, n_batch, n_batch, 1, 1
    params.flash_attn_type = lc.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.type_k = params.type_v = KV_TYPES[kv_type]
    context = lc.llama_init_from_model(model, params)
    if lora:
        lc.llama_set_adapters_lora(context, (lc.llama_adapter_lora_p_ctypes * 1)(adapter), 1, (lc.ctypes.c_float * 1)(lora[1]))
    n_vocab = lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(model))
    try:
        written: list[int] = []
        for start in range(0, len(prompt), n_batch):
            _decode(context, prompt[start : start + n_batch])
        while True:
            logits = np.ctypeslib.as_array(lc.llama_get_logits_ith(context, -1), shape=(n_vocab,))
            written.append(int(logits.argmax()))
            if len(written) == n:
                return written, state(context)
            _decode(context, written[-1:])
    finally:
        lc.llama_free(context)
        lc.llama_model_free(model)


def _decode(context: object, tokens: Sequence[int]) -> None:
    ids = (lc.llama_token * len(tokens))(*tokens)
    assert lc.llama_decode(context, lc.llama_batch_get_one(ids, len(tokens))) == 0


def state(context: object) -> bytes:
    """State data of sequence 0."""
    size = lc.llama_state_seq_get_size(context, 0)
    buffer = (lc.ctypes.c_uint8 * size)()
    assert lc.llama_state_seq_get_data(context, buffer, size, 0) == size
    return bytes(buffer)


def rows_in(data: bytes, tokens: Sequence[int], layout: RowLayout) -> Rows:
    """The rows that state data hold: behind a header, K of every layer, then V of every layer, each with its type and row size."""
    n, sizes = len(tokens), [*layout.k_bytes, *layout.v_bytes]
    at = len(data) - sum(12 + n * size for size in sizes)
    parts = []
    for size in sizes:
        _, row_bytes = struct.unpack_from("<iQ", data, at)
        assert row_bytes == size
        parts.append(np.frombuffer(data, np.uint8, n * size, at + 12))
        at += 12 + n * size
    return Rows(np.array(tokens, np.int32), 0, n, np.concatenate(parts), layout)
