"""The table of tiny architectures: what each one's GGUF must hold, as llama.cpp's loader asks for it.

First the sets of tensors that models share, then one entry a model, then RoPE variants made from these entries.
"""

from __future__ import annotations

from dataclasses import replace

from .architecture import Architecture, PerLayer

# For architectures in which the rows of all query heads must be as wide as the embedding.
_SQUARE = {"embd": 256, "heads": 4, "kv_heads": 2, "head": 64, "ff": 128}
_WINDOW = 32

_QKV = {"attn_q.weight": "embd q", "attn_k.weight": "embd k", "attn_v.weight": "embd v"}
_QKV_BIAS = {"attn_q.bias": "q", "attn_k.bias": "k", "attn_v.bias": "v"}
_FUSED_QKV = {"attn_qkv.weight": "embd qkv"}
_OUT = {"attn_output.weight": "q embd"}
_ATTENTION = {"attn_norm.weight": "embd", **_QKV, **_OUT}
_HEAD_NORMS = {"attn_q_norm.weight": "head", "attn_k_norm.weight": "head"}
_POST_NORMS = {"post_attention_norm.weight": "embd", "post_ffw_norm.weight": "embd"}

_GATED = {"ffn_gate.weight": "embd ff", "ffn_up.weight": "embd ff", "ffn_down.weight": "ff embd"}
_FFN = {"ffn_norm.weight": "embd", **_GATED}
_ROUTER = {"ffn_gate_inp.weight": "embd experts"}
_EXPERTS = {
    "ffn_gate_exps.weight": "embd expert_ff experts",
    "ffn_up_exps.weight": "embd expert_ff experts",
    "ffn_down_exps.weight": "expert_ff embd experts",
}
_EXPERT_BIAS = {
    "ffn_gate_inp.bias": "experts",
    "ffn_gate_exps.bias": "expert_ff experts",
    "ffn_up_exps.bias": "expert_ff experts",
    "ffn_down_exps.bias": "embd experts",
}
_SHARED_EXPERT = {
    "ffn_gate_shexp.weight": "embd expert_ff",
    "ffn_up_shexp.weight": "embd expert_ff",
    "ffn_down_shexp.weight": "expert_ff embd",
}
_MOE = {"ffn_norm.weight": "embd", **_ROUTER, **_EXPERTS}
_EXPERT_KEYS = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 64}

# LayerNorm, biases everywhere, an ungated feed-forward: GPT-2 and its kin.
_CLASSIC = {
    "attn_norm.weight": "embd",
    "attn_norm.bias": "embd",
    **_FUSED_QKV,
    "attn_qkv.bias": "qkv",
    **_OUT,
    "attn_output.bias": "embd",
    "ffn_norm.weight": "embd",
    "ffn_norm.bias": "embd",
    "ffn_up.weight": "embd ff",
    "ffn_up.bias": "ff",
    "ffn_down.weight": "ff embd",
    "ffn_down.bias": "embd",
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
_MAMBA_NORMS = {"ssm_dt_norm.weight": "dt_rank", "ssm_b_norm.weight": "state", "ssm_c_norm.weight": "state"}
_SHORT_CONV = {
    "attn_norm.weight": "embd",
    "shortconv.conv.weight": "conv embd",
    "shortconv.in_proj.weight": "embd embd3",
    "shortconv.out_proj.weight": "embd embd",
}

_PHI3 = {
    "attn_norm.weight": "embd",
    **_FUSED_QKV,
    **_OUT,
    "ffn_norm.weight": "embd",
    "ffn_up.weight": "embd ff2",
    "ffn_down.weight": "ff embd",
}
_OLMO2 = {**_QKV, **_OUT, "attn_q_norm.weight": "q", "attn_k_norm.weight": "k", **_POST_NORMS, **_GATED}
_GPT_OSS = {
    **_ATTENTION,
    **_QKV_BIAS,
    "attn_output.bias": "embd",
    "post_attention_norm.weight": "embd",
    "attn_sinks.weight": "heads",
    **_ROUTER,
    **_EXPERTS,
    **_EXPERT_BIAS,
}

TABLE: dict[str, Architecture] = {
    # Plain attention with RoPE.
    "llama": Architecture("llama", [{**_ATTENTION, **_FFN}]),
    "mistral": Architecture("llama", [{**_ATTENTION, **_FFN}], metadata={"rope.freq_base": 1_000_000.0}, vocab="spm"),
    "qwen2": Architecture("qwen2", [{**_ATTENTION, **_QKV_BIAS, **_FFN}], dims=_SQUARE),
    "qwen3": Architecture("qwen3", [{**_ATTENTION, **_HEAD_NORMS, **_FFN}], metadata={"rope.freq_base": 1_000_000.0}),
    "phi3": Architecture("phi3", [_PHI3], dims=_SQUARE),
    "olmo2": Architecture("olmo2", [_OLMO2], dims=_SQUARE),
    "gemma": Architecture("gemma", [{**_ATTENTION, **_FFN}], is_tied=True, vocab="spm", embedding_std=0.03),
    "granite": Architecture(
        "granite",
        [{**_ATTENTION, **_FFN}],
        metadata={"embedding_scale": 12.0, "residual_scale": 0.5, "attention.scale": 0.125, "logit_scale": 2.0},
        is_tied=True,
        embedding_std=0.03,
    ),
    "stablelm": Architecture(
        "stablelm",
        [{**_ATTENTION, "attn_norm.bias": "embd", **_FFN, "ffn_norm.bias": "embd"}],
        dims={**_SQUARE, "rotary": 16},
        model={"output_norm.bias": "embd"},
    ),
    # Mixtures of experts.
    "qwen2moe": Architecture(
        "qwen2moe",
        [{**_ATTENTION, **_QKV_BIAS, **_MOE, "ffn_gate_inp_shexp.weight": "embd", **_SHARED_EXPERT}],
        dims={**_SQUARE, "expert_ff": 32},
        metadata={**_EXPERT_KEYS, "expert_feed_forward_length": 32, "expert_shared_feed_forward_length": 32},
    ),
    "qwen3moe": Architecture("qwen3moe", [{**_ATTENTION, **_HEAD_NORMS, **_MOE}], metadata=_EXPERT_KEYS),
    # Sliding windows in some layers.
    "gemma2": Architecture(
        "gemma2",
        [{**_ATTENTION, **_POST_NORMS, **_FFN}],
        metadata={
            "attention.sliding_window": _WINDOW,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
        },
        is_tied=True,
        vocab="spm",
        embedding_std=0.03,
    ),
    "gemma3": Architecture(
        "gemma3",
        [{**_ATTENTION, **_HEAD_NORMS, **_POST_NORMS, **_FFN}],
        metadata={
            "attention.sliding_window": _WINDOW,
            "attention.sliding_window_pattern": 3,
            "rope.freq_base": 1_000_000.0,
            "rope.freq_base_swa": 10_000.0,
        },
        is_tied=True,
        vocab="spm",
        embedding_std=0.03,
    ),
    "gpt-oss": Architecture("gpt-oss", [_GPT_OSS], metadata={**_EXPERT_KEYS, "attention.sliding_window": _WINDOW}),
    # Layers without RoPE: every fourth of SmolLM3, the ones that see all tokens of Command R7B (which has parallel blocks too).
    "smollm3": Architecture("smollm3", [{**_ATTENTION, **_FFN}], n_layer=4),
    "cohere2": Architecture(
        "cohere2",
        [{**_ATTENTION, **_GATED}],
        dims=_SQUARE,
        metadata={"attention.sliding_window": _WINDOW, "attention.sliding_window_pattern": 3, "logit_scale": 1.0},
        is_tied=True,
        embedding_std=0.2,
    ),
    # Positions elsewhere than in a turn of K by one number: these cannot be relayed.
    "mistral3": Architecture(
        "mistral3",
        [{**_ATTENTION, **_FFN}],
        metadata={
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 1024,
            "rope.scaling.yarn_log_multiplier": 1.0,
            "attention.temperature_scale": 0.1,
        },
    ),
    "qwen2vl": Architecture(
        "qwen2vl",
        [{**_ATTENTION, **_QKV_BIAS, **_FFN}],
        dims=_SQUARE,
        metadata={"rope.dimension_sections": [8, 12, 12, 0]},
    ),
    "gpt2": Architecture(
        "gpt2",
        [_CLASSIC],
        dims={"head": 32, "kv_heads": 4},
        model={"position_embd.weight": "embd ctx", "output_norm.bias": "embd"},
    ),
    "bloom": Architecture(
        "bloom",
        [_CLASSIC],
        dims={**_SQUARE, "kv_heads": 4},
        model={"token_embd_norm.weight": "embd", "token_embd_norm.bias": "embd", "output_norm.bias": "embd"},
    ),
    # No K and V rows, or not in every layer, or compressed ones.
    "deepseek2": Architecture(
        "deepseek2",
        [{**_MLA, **_FFN}, {**_MLA, **_MOE, **_SHARED_EXPERT}],
        dims={
            "head": 192,
            "kv_heads": 1,
            "rotary": 64,
            "q_rank": 64,
            "kv_rank": 128,
            "q_mla": 512,
            "k_nope": 64,
            "v_mla": 64,
            "o_mla": 256,
        },
        metadata={
            **_EXPERT_KEYS,
            "leading_dense_block_count": 1,
            "expert_shared_count": 1,
            "attention.q_lora_rank": 64,
            "attention.kv_lora_rank": 128,
            "attention.value_length": 128,
            "attention.key_length_mla": 128,
            "attention.value_length_mla": 64,
        },
    ),
    "mamba": Architecture(
        "mamba",
        [_MAMBA],
        dims={"inner": 256, "inner2": 512, "conv": 4, "state": 16, "dt_rank": 8, "dt_b_c": 40, "heads": 0, "kv_heads": 0, "ff": 0},
        metadata={"ssm.conv_kernel": 4, "ssm.inner_size": 256, "ssm.state_size": 16, "ssm.time_step_rank": 8},
    ),
    "jamba": Architecture(
        "jamba",
        [{**_MAMBA, **_MAMBA_NORMS, **_FFN}, {**_ATTENTION, **_FFN}, {**_MAMBA, **_MAMBA_NORMS, **_FFN}],
        dims={"head": 32, "inner": 256, "inner2": 512, "conv": 4, "state": 16, "dt_rank": 8, "dt_b_c": 40},
        metadata={
            "attention.head_count_kv": PerLayer((0, 2, 0)),
            "ssm.conv_kernel": 4,
            "ssm.inner_size": 256,
            "ssm.state_size": 16,
            "ssm.time_step_rank": 8,
        },
    ),
    "lfm2": Architecture(
        "lfm2",
        [{**_SHORT_CONV, **_FFN}, {**_ATTENTION, **_HEAD_NORMS, **_FFN}, {**_SHORT_CONV, **_FFN}],
        dims={**_SQUARE, "embd3": 768, "conv": 3},
        metadata={"attention.head_count_kv": PerLayer((0, 2, 0)), "shortconv.l_cache": 3},
        output_norm="token_embd_norm",
    ),
}


def _variant(base: str, metadata: dict[str, object], **changes: object) -> Architecture:
    model = TABLE[base]
    return replace(model, metadata={**model.metadata, **metadata}, **changes)  # type: ignore[arg-type]


TABLE |= {
    "llama-linear": _variant("llama", {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}),
    "llama-yarn": _variant(
        "llama", {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 1024}
    ),
    "llama-llama3": _variant("llama", {"rope.freq_base": 500_000.0}, model={"rope_freqs.weight": "rotary_half"}),
    # Phi-4-mini: a part of the head turns, by factors that depend on the context's size (short up to 1024 cells here, then long).
    "phi3-longrope": _variant(
        "phi3",
        {"rope.scaling.original_context_length": 1024, "rope.scaling.attn_factor": 1.19},
        dims={**_SQUARE, "rotary": 48},
        model={"rope_factors_long.weight": "rotary_half", "rope_factors_short.weight": "rotary_half"},
    ),
}
