"""What relaylite can do with each architecture: expected by the tests, found by `examine`, and written to docs/architectures.md by
docs/write/architectures.py. Each tiny model stands for the models that people run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from relaylite.engine import native
from relaylite.reuse.kv_types import KV_TYPES
from relaylite.reuse.row_numbers import values
from support.live_model import LiveModel, Part, opened

CACHE_TYPES = {"f32": 1e-4, "f16": 1e-3, "bf16": 5e-3, "q8_0": 0.02, "q4_0": 0.2}
"""Types of the KV cache, and how far moved K rows of layer 0 may be off (see `error_of_moved_keys`)."""

GOES_ON = {"rows": "rows of the store", "start": "any start of a kept state", "whole": "a whole kept state"}
"""What `Expected.kept_states` is called in documents and in `ModelInfo.prefix_reuse`."""

N_TOKENS = 100  # beyond the windows of the tiny models, which are 32
SHIFT = 50


@dataclass(frozen=True)
class Finding:
    """What `examine` saw. `refusal` is "" if everything works."""

    has_rows: bool
    can_rotate: bool
    can_slice: bool
    refusal: str
    is_bit_true: bool = False
    """Slices, cut at every layer, wrote the rows and gave the logits of llama_decode, bit for bit."""
    turn_error: float = 0.0
    """Difference of moved rows from those decoded at their place, root mean square as a share of theirs, in the worst layer. Rounding
    makes it some 1e-3, and more where it lets a token choose another expert."""

    @property
    def relays(self) -> bool:
        return self.can_rotate and self.can_slice


@dataclass(frozen=True)
class Expected:
    """`past`: how prompts go on where spans cannot be relayed: from "rows" of the store, from any start of a kept state ("start"), or
    from a "whole" kept state."""

    stands_for: str
    trait: str
    refusal: str = ""
    kept_states: str = "rows"

    @property
    def relays(self) -> bool:
        return not self.refusal


_RECURRENT = "layer 0 is recurrent: it keeps a state instead of rows"

EXPECTED: dict[str, Expected] = {
    "llama": Expected("Llama 2 and 3, SmolLM2, Yi", "grouped heads, RoPE on neighbouring pairs"),
    "mistral": Expected("Mistral 7B, Mistral Small", "RoPE base 1e6, SentencePiece vocabulary"),
    "qwen2": Expected("Qwen2, Qwen2.5", "bias on Q, K and V; RoPE on split halves"),
    "qwen3": Expected("Qwen3", "norm of Q and K heads"),
    "phi3": Expected("Phi-3, Phi-4", "one fused matrix for Q, K and V"),
    "phi3-longrope": Expected("Phi-3.5, Phi-4-mini", "longrope: partial rotary, factors by context size, magnitude factor"),
    "olmo2": Expected("OLMo 2", "norm of the whole K row, norms behind the blocks"),
    "gemma": Expected("Gemma 1", "scaled embedding, tied output"),
    "granite": Expected("Granite 3", "scaled embedding, residuals and logits"),
    "stablelm": Expected("StableLM 2", "partial rotary (a quarter of the head)"),
    "glm4": Expected("GLM-4", "partial rotary on neighbouring pairs"),
    "openelm": Expected("OpenELM", "numbers of heads that differ by layer"),
    "qwen2moe": Expected("Qwen1.5-MoE, Qwen2-57B-A14B", "mixture of experts with a shared one"),
    "qwen3moe": Expected("Qwen3-30B-A3B", "mixture of experts"),
    "gemma2": Expected("Gemma 2", "sliding window in every other layer, soft-capped logits"),
    "gemma3": Expected("Gemma 3", "sliding window, another RoPE base in windowed layers"),
    "gpt-oss": Expected("gpt-oss 20B and 120B", "sliding window, attention sinks, mixture of experts"),
    "cohere2": Expected("Command R7B", "sliding window, no RoPE in full layers, parallel blocks"),
    "smollm3": Expected("SmolLM3", "every fourth layer without RoPE"),
    "llama4": Expected("Llama 4", "chunked window, RoPE before the norm of K, queries scaled by position"),
    "mistral3": Expected("Ministral 3", "YaRN, queries scaled by position"),
    "bloom": Expected("BLOOM", "ALiBi: distances in the mask, K without position"),
    "llama-linear": Expected("models stretched by linear scaling", "RoPE frequencies divided by 4"),
    "llama-yarn": Expected("models stretched by YaRN", "some frequencies scaled, magnitude factor"),
    "llama-llama3": Expected("Llama 3.1 to 3.3", "a factor for each RoPE frequency"),
    "gpt2": Expected("GPT-2", "learned positions", "layer 0 has rows that depend on their position other than by RoPE on K (inp_pos)"),
    "minicpm3": Expected("MiniCPM3", "RoPE on a part of K that is joined to the rest", "layer 0 does not write K straight from RoPE"),
    "deci": Expected("Nemotron Super 49B", "layers without attention", "layer 1 keeps no rows", "start"),
    "gemma4": Expected("Gemma 3n, Gemma 4", "layers that share the rows of others", "layer 2 reads the rows of another layer", "whole"),
    "deepseek2": Expected("DeepSeek V2, V3, R1", "MLA", "layer 0 keeps K and V as one compressed row (MLA)", "start"),
    "qwen2vl": Expected("Qwen2-VL, Qwen2.5-VL", "M-RoPE", "positions have more than one dimension (M-RoPE)", "start"),
    "mamba": Expected("Mamba", "recurrent", _RECURRENT, "whole"),
    "jamba": Expected("Jamba", "hybrid of Mamba and attention", _RECURRENT, "whole"),
    "lfm2": Expected("LFM2", "hybrid of short convolutions and attention", _RECURRENT, "whole"),
    "qwen35": Expected("Qwen3.5, Qwen3-Next", "hybrid of gated delta net and attention", _RECURRENT, "whole"),
}


def examine(path: Path) -> Finding:
    """Opens the model at `path` and tries everything that its graph promises."""
    try:
        with opened(path) as live:
            info = live.cache.info
            is_bit_true = info.can_slice and is_sliced_as_decoded(live)
            refusal = live.cache.refusal
        turn_error = 0.0
        if info.can_rotate:
            with opened(path, type_k="f32", type_v="f32") as live:
                turn_error = error_of_moved_rows(live)
        return Finding(True, info.can_rotate, info.can_slice, refusal, is_bit_true, turn_error)
    except native.Unsupported as error:
        return Finding(False, False, False, str(error))


def is_sliced_as_decoded(live: LiveModel) -> bool:
    tokens, where = live.tokens(N_TOKENS), np.arange(N_TOKENS, dtype=np.int32)
    rows, logits = live.decoded_rows(tokens)
    for cut in range(1, live.n_layer):
        live.cache.truncate(0)
        live.append([Part(N_TOKENS)])
        below = live.cache.slice((0, cut), where, tokens=tokens, want=("hidden",))
        above = live.cache.slice((cut, live.n_layer), where, hidden=below.hidden, want=("logits",))
        if not (np.array_equal(live.live_rows().data, rows.data) and np.array_equal(above.logits, logits)):
            return False
    return True


def error_of_moved_rows(live: LiveModel) -> float:
    """Attention sees distances alone: tokens decoded from empty at another position have the same rows, K turned. F32 caches."""
    tokens = live.tokens(N_TOKENS)
    rows, _ = live.decoded_rows(tokens)
    assert live.context.decode(tokens, SHIFT) == 0
    expected = live.rows_of(live.cache.read(0, N_TOKENS))  # the cells fill from 0, whatever the positions
    live.cache.truncate(0)
    live.append([Part(N_TOKENS, rows, delta=SHIFT)])
    moved = live.live_rows()
    return max(
        float(np.linalg.norm(got.view(np.float32) - wanted.view(np.float32)) / np.linalg.norm(wanted.view(np.float32)))
        for il in range(live.n_layer)
        for got, wanted in ((moved.k(il), expected.k(il)), (moved.v(il), expected.v(il)))
    )


def error_of_moved_keys(path: Path, kv_type: str) -> float:
    """Moved K rows of layer 0 against decoded ones, both read through the rounding of the cache; root mean square, as a share."""
    with opened(path, type_k=kv_type, type_v=kv_type) as live:
        tokens = live.tokens(N_TOKENS)
        rows, _ = live.decoded_rows(tokens)
        assert live.context.decode(tokens, SHIFT) == 0
        expected = values(live.rows_of(live.cache.read(0, N_TOKENS)).k(0), KV_TYPES[kv_type])
        live.cache.truncate(0)
        live.append([Part(N_TOKENS, rows, delta=SHIFT)])
        moved = live.live_rows()
        assert np.array_equal(moved.v(0), rows.v(0))
        return float(np.linalg.norm(values(moved.k(0), KV_TYPES[kv_type]) - expected) / np.linalg.norm(expected))
