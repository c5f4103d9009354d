"""Random weights that keep a model sane: activations of about unit size, attention neither flat nor stuck on one token.

A tensor's values depend on the seed and its name alone, so that variants of a model share what they have in common.
"""

from __future__ import annotations

import math
import zlib

import numpy as np
from numpy.typing import NDArray

from .architecture import Architecture

Array = NDArray[np.float32]

_LOGIT_STD = 3.0
# Standard deviation of a product's output for inputs of unit variance. Queries and keys make attention logits of about ±3.
_GAINS = {"attn_q": 1.8, "attn_k": 1.8, "attn_qkv": 1.8, "attn_q_b": 1.8, "attn_output": 2.0, "output": _LOGIT_STD, "ffn_gate_inp": 2.0}
_ROPE_FACTORS = {"rope_freqs": (1.0, 8.0), "rope_factors_short": (1.0, 1.2), "rope_factors_long": (1.0, 4.0)}
_BIAS_STD = {"attn_k": 0.5, "attn_q": 0.5}


def make_weight(name: str, shape: tuple[int, ...], seed: int, model: Architecture) -> Array:
    """Values as F32 in numpy's order (the reverse of ggml's, in which `shape` is given)."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    noise = rng.standard_normal(shape[::-1], dtype=np.float32)
    stem = name.removesuffix(".weight").removesuffix(".bias").rsplit(".", 1)[-1]
    values = _bias(stem, noise) if name.endswith(".bias") else _weight(stem, noise, model)
    return np.ascontiguousarray(values, dtype=np.float32)


def _bias(stem: str, noise: Array) -> Array:
    if stem == "ssm_dt":
        return noise * 0.5 - 2.0  # softplus(-2) = 0.13: a state that lasts for some tokens
    return noise * _BIAS_STD.get(stem, 0.1)


def _weight(stem: str, noise: Array, model: Architecture) -> Array:
    width = noise.shape[-1]
    if stem in ("token_embd", "position_embd"):
        return noise * model.embedding_std
    if stem.endswith("norm"):
        return (1 + 0.1 * noise) * _norm_gain(stem, width, model)
    if stem in _ROPE_FACTORS:
        return np.linspace(*_ROPE_FACTORS[stem], width, dtype=np.float32)
    if stem == "ssm_a":
        return np.broadcast_to(-np.arange(1, width + 1), noise.shape)
    if stem in ("ssm_d", "layer_output_scale"):
        return 1 + 0.1 * noise
    if stem == "attn_sinks":
        return noise
    return noise * (_GAINS.get(stem, 1.0) / math.sqrt(width))


def _norm_gain(stem: str, width: int, model: Architecture) -> float:
    if stem == model.output_norm and model.is_tied:
        return _LOGIT_STD / (model.embedding_std * math.sqrt(width))
    return 1.8 if stem in ("attn_q_norm", "attn_k_norm") else 1.0
