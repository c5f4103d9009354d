"""Sets of tensors that tiny architectures share: name (in a layer, after `blk.<i>.`) → shape in ggml's order, by names of dimensions."""

from __future__ import annotations

QKV = {"attn_q.weight": "embd q", "attn_k.weight": "embd k", "attn_v.weight": "embd v"}
QKV_BIAS = {"attn_q.bias": "q", "attn_k.bias": "k", "attn_v.bias": "v"}
FUSED_QKV = {"attn_qkv.weight": "embd qkv"}
OUT = {"attn_output.weight": "q embd"}
ATTENTION = {"attn_norm.weight": "embd", **QKV, **OUT}
HEAD_NORMS = {"attn_q_norm.weight": "head", "attn_k_norm.weight": "head"}
POST_NORMS = {"post_attention_norm.weight": "embd", "post_ffw_norm.weight": "embd"}

GATED = {"ffn_gate.weight": "embd ff", "ffn_up.weight": "embd ff", "ffn_down.weight": "ff embd"}
FFN = {"ffn_norm.weight": "embd", **GATED}
ROUTER = {"ffn_gate_inp.weight": "embd experts"}
EXPERTS = {
    "ffn_gate_exps.weight": "embd expert_ff experts",
    "ffn_up_exps.weight": "embd expert_ff experts",
    "ffn_down_exps.weight": "expert_ff embd experts",
}
EXPERT_BIAS = {
    "ffn_gate_inp.bias": "experts",
    "ffn_gate_exps.bias": "expert_ff experts",
    "ffn_up_exps.bias": "expert_ff experts",
    "ffn_down_exps.bias": "embd experts",
}
SHARED_EXPERT = {
    "ffn_gate_shexp.weight": "embd expert_ff",
    "ffn_up_shexp.weight": "embd expert_ff",
    "ffn_down_shexp.weight": "expert_ff embd",
}
MOE = {"ffn_norm.weight": "embd", **ROUTER, **EXPERTS}


# LayerNorm, biases everywhere, an ungated feed-forward: GPT-2 and its kin.
CLASSIC = {
    "attn_norm.weight": "embd",
    "attn_norm.bias": "embd",
    **FUSED_QKV,
    "attn_qkv.bias": "qkv",
    **OUT,
    "attn_output.bias": "embd",
    "ffn_norm.weight": "embd",
    "ffn_norm.bias": "embd",
    "ffn_up.weight": "embd ff",
    "ffn_up.bias": "ff",
    "ffn_down.weight": "ff embd",
    "ffn_down.bias": "embd",
}
MLA = {
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
MAMBA = {
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
MAMBA_NORMS = {"ssm_dt_norm.weight": "dt_rank", "ssm_b_norm.weight": "state", "ssm_c_norm.weight": "state"}
SHORT_CONV = {
    "attn_norm.weight": "embd",
    "shortconv.conv.weight": "conv embd",
    "shortconv.in_proj.weight": "embd embd3",
    "shortconv.out_proj.weight": "embd embd",
}

PHI3 = {
    "attn_norm.weight": "embd",
    **FUSED_QKV,
    **OUT,
    "ffn_norm.weight": "embd",
    "ffn_up.weight": "embd ff2",
    "ffn_down.weight": "ff embd",
}
OLMO2 = {**QKV, **OUT, "attn_q_norm.weight": "q", "attn_k_norm.weight": "k", **POST_NORMS, **GATED}
GPT_OSS = {
    **ATTENTION,
    **QKV_BIAS,
    "attn_output.bias": "embd",
    "post_attention_norm.weight": "embd",
    "attn_sinks.weight": "heads",
    **ROUTER,
    **EXPERTS,
    **EXPERT_BIAS,
}
MLA_UNFOLDED = {
    "attn_norm.weight": "embd",
    "attn_q_a.weight": "embd q_rank",
    "attn_q_a_norm.weight": "q_rank",
    "attn_q_b.weight": "q_rank q",
    "attn_kv_a_mqa.weight": "embd kv_rank_rotary",
    "attn_kv_a_norm.weight": "kv_rank",
    "attn_kv_b.weight": "kv_rank kv_mla",
    "attn_output.weight": "o_mla embd",
}
GLM4 = {**ATTENTION, **POST_NORMS, "ffn_norm.weight": "embd", "ffn_up.weight": "embd ff2", "ffn_down.weight": "ff embd"}
GATED_DELTA_NET = {
    "attn_norm.weight": "embd",
    "post_attention_norm.weight": "embd",
    "attn_qkv.weight": "embd conv_width",
    "attn_gate.weight": "embd inner",
    "ssm_conv1d.weight": "conv conv_width",
    "ssm_dt.bias": "dt_rank",
    "ssm_a": "dt_rank",
    "ssm_beta.weight": "embd dt_rank",
    "ssm_alpha.weight": "embd dt_rank",
    "ssm_norm.weight": "state",
    "ssm_out.weight": "inner embd",
    **GATED,
}
GATED_ATTENTION = {**ATTENTION, **HEAD_NORMS, "attn_q.weight": "embd q2", "post_attention_norm.weight": "embd", **GATED}
PER_LAYER_INPUT = {
    "inp_gate.weight": "embd per_layer",
    "proj.weight": "per_layer embd",
    "post_norm.weight": "embd",
    "layer_output_scale.weight": "one",
}
SWA_QUERY = {"attn_q.weight": "embd q_swa", "attn_q_norm.weight": "head_swa", "attn_output.weight": "q_swa embd"}
SWA_HEADS = {**SWA_QUERY, "attn_k.weight": "embd k_swa", "attn_v.weight": "embd v_swa", "attn_k_norm.weight": "head_swa"}
QUERY_ONLY = {"attn_norm.weight": "embd", "attn_q.weight": "embd q", **OUT}
