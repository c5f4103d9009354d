"""The table of tiny architectures: what each one's GGUF must hold, as llama.cpp's loader asks for it.

One entry a model: dimensions, metadata (keys without the architecture's prefix) and tensors (shapes in ggml's order, by
name of dimension). Values of weights, vocabularies and files are made elsewhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Tensors = Mapping[str, str]


@dataclass(frozen=True)
class Architecture:
    """A model's shape. `layers[i]` are the tensors of layer i; the last entry repeats for all further layers."""

    gguf_name: str
    layers: Sequence[Tensors]
    dims: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    model: Tensors = field(default_factory=dict)
    is_tied: bool = False
    vocab: str = "bpe"
    embedding_std: float = 1.0

    def layer(self, index: int) -> Tensors:
        return self.layers[min(index, len(self.layers) - 1)]

    def all_dims(self) -> dict[str, int]:
        """Every dimension that a shape may name; `q`, `k` and `v` are whole rows (heads × head)."""
        d = {**_DIMS, **self.dims}
        derived = {"q": d["heads"] * d["head"], "k": d["kv_heads"] * d["head"], "v": d["kv_heads"] * d["head"], "rotary": d["head"]}
        d = {**derived, **d}
        return {**d, "qkv": d["q"] + d["k"] + d["v"], "ff2": 2 * d["ff"], "rotary_half": d["rotary"] // 2}


@dataclass(frozen=True)
class PerLayer:
    """A metadata value that differs by layer; the last one repeats."""

    values: tuple[Any, ...]

    def expand(self, n_layer: int) -> list[Any]:
        return [self.values[min(i, len(self.values) - 1)] for i in range(n_layer)]


_DIMS = {"embd": 128, "heads": 4, "kv_heads": 2, "head": 64, "ff": 192, "experts": 4, "expert_ff": 64}
# For architectures in which the rows of all query heads must be as wide as the embedding.
_SQUARE = {"embd": 256, "heads": 4, "kv_heads": 2, "head": 64, "ff": 128}

_QKV = {"attn_q.weight": "embd q", "attn_k.weight": "embd k", "attn_v.weight": "embd v"}
_QKV_BIAS = {"attn_q.bias": "q", "attn_k.bias": "k", "attn_v.bias": "v"}
_ATTENTION = {"attn_norm.weight": "embd", **_QKV, "attn_output.weight": "q embd"}
_HEAD_NORMS = {"attn_q_norm.weight": "head", "attn_k_norm.weight": "head"}
_FFN = {"ffn_norm.weight": "embd", "ffn_gate.weight": "embd ff", "ffn_up.weight": "embd ff", "ffn_down.weight": "ff embd"}
_ROUTER = {"ffn_gate_inp.weight": "embd experts"}
_EXPERTS = {
    "ffn_gate_exps.weight": "embd expert_ff experts",
    "ffn_up_exps.weight": "embd expert_ff experts",
    "ffn_down_exps.weight": "expert_ff embd experts",
}
_MOE = {"ffn_norm.weight": "embd", **_ROUTER, **_EXPERTS}
_POST_NORMS = {"post_attention_norm.weight": "embd", "post_ffw_norm.weight": "embd"}
_EXPERT_KEYS = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 64}

_PHI3 = {
    "attn_norm.weight": "embd",
    "attn_qkv.weight": "embd qkv",
    "attn_output.weight": "q embd",
    "ffn_norm.weight": "embd",
    "ffn_up.weight": "embd ff2",
    "ffn_down.weight": "ff embd",
}
_GPT_OSS = {
    **_ATTENTION,
    **_QKV_BIAS,
    "attn_output.bias": "embd",
    "post_attention_norm.weight": "embd",
    "attn_sinks.weight": "heads",
    **_ROUTER,
    **_EXPERTS,
    "ffn_gate_inp.bias": "experts",
    "ffn_gate_exps.bias": "expert_ff experts",
    "ffn_up_exps.bias": "expert_ff experts",
    "ffn_down_exps.bias": "embd experts",
}
_MLA = {
    "attn_norm.weight": "embd",
    "attn_q_a.weight": "embd q_rank",
    "attn_q_a_norm.weight": "q_rank",
    "attn_q_b.weight": "q_rank q_mla",
    "attn_kv_a_mqa.weight": "embd head",
    "attn_kv_a_norm.weight": "kv_rank",
    "attn_k_b.weight": "k_nope kv_rank heads",
    "attn_v_b.weight": "kv_rank v_mla heads",
    "attn_output.weight": "o_mla embd",
}
_SHARED_EXPERT = {
    "ffn_gate_shexp.weight": "embd expert_ff",
    "ffn_up_shexp.weight": "embd expert_ff",
    "ffn_down_shexp.weight": "expert_ff embd",
}
_MAMBA = {
    "attn_norm.weight": "embd",
    "ssm_in.weight": "embd inner2",
    "ssm_conv1d.weight": "conv inner",
    "ssm_conv1d.bias": "inner",
    "ssm_x.weight": "inner dt_b_c",
    "ssm_dt.weight": "dt_rank inner",
    "ssm_dt.bias": "inner",
    "ssm_a": "state inner",
    "ssm_d": "inner",
    "ssm_out.weight": "inner embd",
}
_SSM_KEYS = {"ssm.conv_kernel": 4, "ssm.inner_size": 256, "ssm.state_size": 16, "ssm.time_step_rank": 8}
_SSM_DIMS = {"inner": 256, "inner2": 512, "conv": 4, "state": 16, "dt_rank": 8, "dt_b_c": 40}

_MLA_DIMS = {"head": 192, "kv_heads": 1, "q_rank": 64, "kv_rank": 128, "q_mla": 512, "k_nope": 64, "v_mla": 64, "o_mla": 256, "rotary": 64}

TABLE: dict[str, Architecture] = {
    "llama": Architecture("llama", [{**_ATTENTION, **_FFN}]),
    "qwen2": Architecture("qwen2", [{**_ATTENTION, **_QKV_BIAS, **_FFN}], dims=_SQUARE),
    "qwen3": Architecture("qwen3", [{**_ATTENTION, **_HEAD_NORMS, **_FFN}]),
    "qwen3moe": Architecture("qwen3moe", [{**_ATTENTION, **_HEAD_NORMS, **_MOE}], metadata=_EXPERT_KEYS),
    "phi3": Architecture("phi3", [_PHI3], dims=_SQUARE),
    "gemma3": Architecture(
        "gemma3",
        [{**_ATTENTION, **_HEAD_NORMS, **_POST_NORMS, **_FFN}],
        metadata={
            "attention.sliding_window": 32,
            "attention.sliding_window_pattern": 3,
            "rope.freq_base": 1_000_000.0,
            "rope.freq_base_swa": 10_000.0,
        },
        is_tied=True,
        vocab="spm",
        embedding_std=0.1,
    ),
    "gpt-oss": Architecture("gpt-oss", [_GPT_OSS], metadata={**_EXPERT_KEYS, "attention.sliding_window": 32}),
    "deepseek2": Architecture(
        "deepseek2",
        [{**_MLA, **_FFN}, {**_MLA, **_MOE, **_SHARED_EXPERT}],
        dims=_MLA_DIMS,
        metadata={
            **_EXPERT_KEYS,
            "leading_dense_block_count": 1,
            "expert_shared_count": 1,
            "attention.q_lora_rank": 64,
            "attention.kv_lora_rank": 128,
            "attention.key_length": 192,
            "attention.value_length": 128,
            "attention.key_length_mla": 128,
            "attention.value_length_mla": 64,
        },
    ),
    "mamba": Architecture(
        "mamba",
        [_MAMBA],
        dims=_SSM_DIMS,
        metadata={**_SSM_KEYS, "attention.head_count": 0, "attention.head_count_kv": 0, "feed_forward_length": 0},
    ),
}
