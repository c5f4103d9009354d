"""The table of tiny architectures: what each one's GGUF must hold, as llama.cpp's loader asks for it. RoPE variants stand at its end."""

from __future__ import annotations

from dataclasses import replace

from .architecture import Architecture, PerLayer
from .tensors import (
    ATTENTION,
    CLASSIC,
    FFN,
    FUSED_QKV,
    GATED,
    GATED_ATTENTION,
    GATED_DELTA_NET,
    GLM4,
    GPT_OSS,
    HEAD_NORMS,
    MAMBA,
    MAMBA_NORMS,
    MLA,
    MLA_UNFOLDED,
    MOE,
    OLMO2,
    OUT,
    PER_LAYER_INPUT,
    PHI3,
    POST_NORMS,
    QKV_BIAS,
    QUERY_ONLY,
    SHARED_EXPERT,
    SHORT_CONV,
    SWA_HEADS,
    SWA_QUERY,
)

# For architectures in which the rows of all query heads must be as wide as the embedding.
SQUARE = {"embd": 256, "heads": 4, "kv_heads": 2, "head": 64, "ff": 128}
WINDOW = 32
EXPERT_KEYS = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 64}

TABLE: dict[str, Architecture] = {
    # Plain attention with RoPE.
    "llama": Architecture("llama", [{**ATTENTION, **FFN}]),
    "mistral": Architecture("llama", [{**ATTENTION, **FFN}], metadata={"rope.freq_base": 1_000_000.0}, vocab="spm"),
    "qwen2": Architecture("qwen2", [{**ATTENTION, **QKV_BIAS, **FFN}], dims=SQUARE),
    "qwen3": Architecture("qwen3", [{**ATTENTION, **HEAD_NORMS, **FFN}], metadata={"rope.freq_base": 1_000_000.0}),
    "phi3": Architecture("phi3", [PHI3], dims=SQUARE),
    "olmo2": Architecture("olmo2", [OLMO2], dims=SQUARE),
    "gemma": Architecture("gemma", [{**ATTENTION, **FFN}], is_tied=True, vocab="spm", embedding_std=0.03),
    "granite": Architecture(
        "granite",
        [{**ATTENTION, **FFN}],
        metadata={"embedding_scale": 12.0, "residual_scale": 0.5, "attention.scale": 0.125, "logit_scale": 2.0},
        is_tied=True,
        embedding_std=0.03,
    ),
    "stablelm": Architecture(
        "stablelm",
        [{**ATTENTION, "attn_norm.bias": "embd", **FFN, "ffn_norm.bias": "embd"}],
        dims={**SQUARE, "rotary": 16},
        model={"output_norm.bias": "embd"},
    ),
    "glm4": Architecture("glm4", [GLM4], dims={"rotary": 32}),
    # Rows of K and V that differ in width by layer, and a layer that has none.
    "openelm": Architecture(
        "openelm",
        [
            {"attn_norm.weight": "embd", "attn_qkv.weight": "embd qkv_0", "attn_output.weight": "q_0 embd", **HEAD_NORMS, **FFN},
            {"attn_norm.weight": "embd", **FUSED_QKV, **OUT, **HEAD_NORMS, **FFN},
        ],
        dims={"q_0": 128, "qkv_0": 256},
        metadata={"attention.head_count": PerLayer((2, 4)), "attention.head_count_kv": PerLayer((1, 2))},
        is_tied=True,
        embedding_std=0.3,
    ),
    "deci": Architecture(
        "deci",
        [{**ATTENTION, **FFN}, FFN, {**ATTENTION, **FFN}],
        metadata={"attention.head_count": PerLayer((4, 0, 4)), "attention.head_count_kv": PerLayer((2, 0, 2))},
    ),
    # Mixtures of experts.
    "qwen2moe": Architecture(
        "qwen2moe",
        [{**ATTENTION, **QKV_BIAS, **MOE, "ffn_gate_inp_shexp.weight": "embd", **SHARED_EXPERT}],
        dims={**SQUARE, "expert_ff": 32},
        metadata={**EXPERT_KEYS, "expert_feed_forward_length": 32, "expert_shared_feed_forward_length": 32},
    ),
    "qwen3moe": Architecture("qwen3moe", [{**ATTENTION, **HEAD_NORMS, **MOE}], metadata=EXPERT_KEYS),
    # Sliding windows in some layers.
    "gemma2": Architecture(
        "gemma2",
        [{**ATTENTION, **POST_NORMS, **FFN}],
        metadata={
            "attention.sliding_window": WINDOW,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
        },
        is_tied=True,
        vocab="spm",
        embedding_std=0.03,
    ),
    "gemma3": Architecture(
        "gemma3",
        [{**ATTENTION, **HEAD_NORMS, **POST_NORMS, **FFN}],
        metadata={
            "attention.sliding_window": WINDOW,
            "attention.sliding_window_pattern": 3,
            "rope.freq_base": 1_000_000.0,
            "rope.freq_base_swa": 10_000.0,
        },
        is_tied=True,
        vocab="spm",
        embedding_std=0.03,
    ),
    "gpt-oss": Architecture("gpt-oss", [GPT_OSS], metadata={**EXPERT_KEYS, "attention.sliding_window": WINDOW}),
    # Layers 2 and 3 read the rows of 0 and 1, whose heads differ in width; each layer has an embedding of its own.
    "gemma4": Architecture(
        "gemma4",
        [
            {**ATTENTION, **SWA_HEADS, **POST_NORMS, **FFN, **PER_LAYER_INPUT},
            {**ATTENTION, **HEAD_NORMS, **POST_NORMS, **FFN, **PER_LAYER_INPUT},
            {**QUERY_ONLY, **SWA_QUERY, **POST_NORMS, **FFN, **PER_LAYER_INPUT},
            {**QUERY_ONLY, "attn_q_norm.weight": "head", **POST_NORMS, **FFN, **PER_LAYER_INPUT},
        ],
        dims={"head_swa": 32, "q_swa": 128, "k_swa": 64, "v_swa": 64, "per_layer": 32, "per_layers": 128, "one": 1},
        metadata={
            "attention.sliding_window": WINDOW,
            "attention.sliding_window_pattern": PerLayer((True, False, True, False)),
            "attention.shared_kv_layers": 2,
            "attention.key_length_swa": 32,
            "attention.value_length_swa": 32,
            "rope.dimension_count_swa": 32,
            "rope.freq_base": 1_000_000.0,
            "rope.freq_base_swa": 10_000.0,
            "embedding_length_per_layer_input": 32,
            "final_logit_softcapping": 30.0,
        },
        model={
            "rope_freqs.weight": "rotary_half",
            "per_layer_token_embd.weight": "per_layers vocab",
            "per_layer_model_proj.weight": "embd per_layers",
            "per_layer_proj_norm.weight": "per_layer",
        },
        is_tied=True,
        vocab="spm",
        embedding_std=0.03,
        n_layer=4,
    ),
    # Layers without RoPE: every fourth of SmolLM3, the ones that see all tokens of Command R7B (which has parallel blocks too).
    "smollm3": Architecture("smollm3", [{**ATTENTION, **FFN}], n_layer=4),
    "cohere2": Architecture(
        "cohere2",
        [{**ATTENTION, **GATED}],
        dims=SQUARE,
        metadata={"attention.sliding_window": WINDOW, "attention.sliding_window_pattern": 3, "logit_scale": 1.0},
        is_tied=True,
        embedding_std=0.2,
    ),
    # Windows that are chunks, RoPE before the norm of K, and a scale of Q by position (as in mistral3).
    "llama4": Architecture(
        "llama4",
        [{**ATTENTION, **FFN}, {**ATTENTION, **MOE, **SHARED_EXPERT}, {**ATTENTION, **FFN}, {**ATTENTION, **MOE, **SHARED_EXPERT}],
        metadata={**EXPERT_KEYS, "expert_used_count": 1, "interleave_moe_layer_step": 2},
        n_layer=4,
    ),
    # Positions elsewhere than in a turn of K by one number: these cannot be relayed.
    "mistral3": Architecture(
        "mistral3",
        [{**ATTENTION, **FFN}],
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
        [{**ATTENTION, **QKV_BIAS, **FFN}],
        dims=SQUARE,
        metadata={"rope.dimension_sections": [8, 12, 12, 0]},
    ),
    "gpt2": Architecture(
        "gpt2",
        [CLASSIC],
        dims={"head": 32, "kv_heads": 4},
        model={"position_embd.weight": "embd ctx", "output_norm.bias": "embd"},
    ),
    "bloom": Architecture(
        "bloom",
        [CLASSIC],
        dims={**SQUARE, "kv_heads": 4},
        model={"token_embd_norm.weight": "embd", "token_embd_norm.bias": "embd", "output_norm.bias": "embd"},
    ),
    # No K and V rows, or not in every layer, or compressed ones.
    "deepseek2": Architecture(
        "deepseek2",
        [{**MLA, **FFN}, {**MLA, **MOE, **SHARED_EXPERT}],
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
            **EXPERT_KEYS,
            "leading_dense_block_count": 1,
            "expert_shared_count": 1,
            "attention.q_lora_rank": 64,
            "attention.kv_lora_rank": 128,
            "attention.value_length": 128,
            "attention.key_length_mla": 128,
            "attention.value_length_mla": 64,
        },
    ),
    "minicpm3": Architecture(
        "minicpm3",
        [{**MLA_UNFOLDED, **FFN}],
        dims={
            "embd": 256,
            "kv_heads": 4,
            "ff": 128,
            "rotary": 32,
            "q_rank": 64,
            "kv_rank": 64,
            "kv_rank_rotary": 96,
            "kv_mla": 384,
            "o_mla": 256,
        },
        metadata={"attention.q_lora_rank": 64, "attention.kv_lora_rank": 64},
        embedding_std=0.1,
    ),
    "mamba": Architecture(
        "mamba",
        [MAMBA],
        dims={"inner": 256, "inner2": 512, "conv": 4, "state": 16, "dt_rank": 8, "dt_b_c": 40, "heads": 0, "kv_heads": 0, "ff": 0},
        metadata={"ssm.conv_kernel": 4, "ssm.inner_size": 256, "ssm.state_size": 16, "ssm.time_step_rank": 8},
    ),
    "jamba": Architecture(
        "jamba",
        [{**MAMBA, **MAMBA_NORMS, **FFN}, {**ATTENTION, **FFN}, {**MAMBA, **MAMBA_NORMS, **FFN}],
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
        [{**SHORT_CONV, **FFN}, {**ATTENTION, **HEAD_NORMS, **FFN}, {**SHORT_CONV, **FFN}],
        dims={**SQUARE, "embd3": 768, "conv": 3},
        metadata={"attention.head_count_kv": PerLayer((0, 2, 0)), "shortconv.l_cache": 3},
        output_norm="token_embd_norm",
    ),
    "qwen35": Architecture(
        "qwen35",
        [GATED_DELTA_NET, GATED_DELTA_NET, GATED_ATTENTION],
        dims={"q2": 512, "conv": 4, "conv_width": 256, "state": 32, "dt_rank": 4, "inner": 128},
        metadata={
            "full_attention_interval": 3,
            "rope.dimension_sections": [8, 12, 12, 0],
            "ssm.conv_kernel": 4,
            "ssm.state_size": 32,
            "ssm.group_count": 2,
            "ssm.time_step_rank": 4,
            "ssm.inner_size": 128,
        },
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
    "llama-llama3": _variant("llama", {}, model={"rope_freqs.weight": "rotary_half"}),
    # Phi-4-mini: a part of the head turns, by factors that depend on the context's size (short up to 1024 cells here, then long).
    "phi3-longrope": _variant(
        "phi3",
        {"rope.scaling.original_context_length": 1024, "rope.scaling.attn_factor": 1.19},
        dims={**SQUARE, "rotary": 48},
        model={"rope_factors_long.weight": "rotary_half", "rope_factors_short.weight": "rotary_half"},
    ),
}
