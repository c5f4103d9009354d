"""What a context takes in memory, estimated before llama.cpp takes it: a system that promises more than it has would end the process later.

Estimates only; what was really taken is `Engine.memory()`'s to say.
"""

from __future__ import annotations

from relaylite import llama
from relaylite.errors import ModelError
from relaylite.process import available_bytes

_ROW_BITS = {"f32": 32, "f16": 16, "bf16": 16, "q8_0": 34 * 8 / 32, "q4_0": 18 * 8 / 32}
_GRAPH_BYTES = 160 * 2**20  # llama.cpp's graphs and ours, and what passes between their nodes


def context_bytes(model: llama.Model, options: llama.ContextOptions) -> int:
    """KV rows of every position, the logits of a batch, and graphs."""
    heads = max(model.n_head_kv, 1)
    k_width, v_width = (
        int(model.arch_meta(f"attention.{kind}_length") or model.n_embd // max(model.n_head, 1)) for kind in ("key", "value")
    )
    row_bits = heads * (k_width * _ROW_BITS[options.type_k] + v_width * _ROW_BITS[options.type_v])
    return int(options.n_ctx * model.n_layer * row_bits / 8) + options.n_batch * model.vocab.n_tokens * 4 + _GRAPH_BYTES


def check_context(model: llama.Model, options: llama.ContextOptions) -> None:
    """Raise ModelError if this context does not fit what is free."""
    needed, free = context_bytes(model, options), available_bytes()
    if needed > free:
        raise ModelError(
            f"a context of {options.n_ctx} tokens needs about {_mb(needed)} of memory and {_mb(free)} are free; give a smaller --ctx, "
            "or --kv-type q8_0"
        )


def _mb(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.0f} MB"
