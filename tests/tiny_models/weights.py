"""Random weights that keep a model sane: activations of about unit size, attention neither flat nor stuck on one token.

A tensor's values depend on the seed and its name alone, so that variants of a model share what they have in common.
"""

import zlib

import numpy as np

# Standard deviation of a product's output for inputs of unit variance. Queries and keys make attention logits of about ±3.
_GAINS = {"attn_q": 1.8, "attn_k": 1.8, "attn_qkv": 1.8, "attn_output": 2.0, "output": 3.0, "ffn_gate_inp": 2.0}
_BIAS_STD = {"attn_k": 0.5, "attn_q": 0.5}


def make_weight(name: str, shape: tuple[int, ...], seed: int, embedding_std: float) -> np.ndarray:
    """Values as F32 in numpy's order (the reverse of ggml's, in which `shape` is given)."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    stem = name.removesuffix(".weight").removesuffix(".bias").rsplit(".", 1)[-1]
    return _values(rng, stem, name.endswith(".bias"), shape[::-1], embedding_std).astype(np.float32)


def _values(rng: np.random.Generator, stem: str, is_bias: bool, shape: tuple[int, ...], embedding_std: float) -> np.ndarray:
    noise = rng.standard_normal(shape, dtype=np.float32)
    if stem == "ssm_dt" and is_bias:
        return noise * 0.5 - 2.0  # softplus(-2) = 0.13: a state that lasts for some tokens
    if is_bias:
        return noise * _BIAS_STD.get(stem, 0.1)
    if stem.endswith("norm"):
        return (1.8 if stem in ("attn_q_norm", "attn_k_norm") else 1.0) * (1 + 0.1 * noise)
    if stem == "ssm_a":
        return -np.broadcast_to(np.arange(1, shape[-1] + 1, dtype=np.float32), shape).copy()
    if stem == "ssm_d":
        return 1 + 0.1 * noise
    if stem == "attn_sinks":
        return noise
    if stem == "token_embd":
        return noise * embedding_std
    return noise * (_GAINS.get(stem, 1.0) / np.sqrt(shape[-1]))
