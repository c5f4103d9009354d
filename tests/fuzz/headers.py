"""Fuzzes headers of model files: metadata, tensor entries, the vocabulary and single bytes of tiny models take values that they should not.

A file is refused in one line, or it is a model that computes, writes and relays. It never ends the process; each is opened as one that was
never opened before.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from gguf import GGUFReader
from support.live_engine import LiveEngine, Taken, plan_of
from support.tiny_models import write_model

from relaylite.engine.engine import Engine
from relaylite.engine.options import EngineOptions
from relaylite.engine.trial import passed, process
from relaylite.errors import RelayliteError
from relaylite.gguf.catalog import resolve_model
from relaylite.gguf.header import read_header
from relaylite.reuse.plan import Kind
from relaylite.reuse.policies import NAIVE

ARCHITECTURES = ("llama", "qwen2", "gemma3", "mamba")
N_LAYER = 2
LIMIT_S = 30.0  # some headers keep llama.cpp busy without end
KEYS = (
    "block_count", "embedding_length", "context_length", "feed_forward_length", "vocab_size", "attention.head_count",
    "attention.head_count_kv", "attention.key_length", "attention.value_length", "attention.layer_norm_rms_epsilon",
    "attention.layer_norm_epsilon", "attention.sliding_window", "attention.sliding_window_pattern", "attention.scale", "attention.causal",
    "attention.clamp_kqv", "attention.max_alibi_bias", "rope.dimension_count", "rope.freq_base", "rope.scaling.type", "rope.scaling.factor",
    "rope.scaling.original_context_length", "rope.scaling.attn_factor", "rope.dimension_sections", "expert_count", "expert_used_count",
    "expert_group_count", "leading_dense_block_count", "nextn_predict_layers", "pooling_type", "logit_scale", "embedding_scale",
    "residual_scale", "final_logit_softcapping", "attn_logit_softcapping", "ssm.conv_kernel", "ssm.inner_size", "ssm.state_size",
    "ssm.time_step_rank", "use_parallel_residual", "tensor_data_layout", "swin_norm", "rescale_every_n_layers", "token_shift_count",
)  # fmt: skip
WHOLE_KEYS = (
    "general.alignment", "general.architecture", "general.file_type", "general.type", "split.count", "tokenizer.ggml.model",
    "tokenizer.ggml.pre", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.padding_token_id", "tokenizer.ggml.fim_pre_token_id",
    "tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_space_prefix", "tokenizer.ggml.token_type", "tokenizer.ggml.token_type_count",
    "tokenizer.ggml.scores", "tokenizer.ggml.merges", "tokenizer.ggml.tokens", "tokenizer.ggml.precompiled_charsmap",
    "tokenizer.chat_template",
)  # fmt: skip
WHOLE = (0, 1, 2, 3, 5, 7, 8, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 1000, 4095, 65_535, 65_536, 2**31 - 1, 2**31, 2**32 - 1)
BROKEN = (0.0, -0.0, 1e-45, 1e-5, 1.0, -1.0, 0.5, 2.0, 3e38, -3e38, float("nan"), float("inf"), float("-inf"))
TEXTS = ("", "x", "yarn", "linear", "longrope", "none", "llama", "gpt2", "bert", "t5", "rwkv", "default", "\x00", "é" * 300)
TYPES = (0, 1, 2, 3, 4, 6, 8, 10, 14, 15, 24, 26, 30, 39, 250)
SHAPES = (0, 1, 2, 31, 32, 64, 127, 128, 129, 192, 256, 2**31, 2**32, 2**62, 2**63)


def run(rng: np.random.Generator, folder: Path) -> None:
    path = folder / "m.gguf"
    try:
        _write(rng, path)
    except (ValueError, TypeError, OverflowError, AttributeError, IndexError, KeyError, struct.error):
        return  # the package that writes GGUF files does not take such a value
    with patch.object(passed, "holds", lambda mark: False), patch.object(process, "LEAST_LIMIT_S", LIMIT_S):
        try:
            engine = Engine.open(resolve_model(path), EngineOptions(n_ctx=256, n_threads=1, chat_template="chatml"))
        except RelayliteError as error:
            assert str(error) and "\n" not in str(error), error
            return
    try:
        _use(LiveEngine(engine))
    finally:
        engine.close()


def _use(live: LiveEngine) -> None:
    """A few errors of our own are right here: random weights may give no numbers."""
    tokens = [token for token in range(60) if token < live.engine.info.n_vocab]
    try:
        rows = live.full_rows(tokens)
        live.generate(5)
        if live.engine.info.relay_refusal is None and len(rows) > 40:
            live.prefill(plan_of(NAIVE, tokens[:3], Taken(rows, 0, 40, Kind.SPAN), tokens[:2]))
            live.generate(3)
    except RelayliteError as error:
        assert str(error) and "\n" not in str(error), error


# -- files ---------------------------------------------------------------------------------------------------------------------


def _write(rng: np.random.Generator, path: Path) -> None:
    arch = str(rng.choice(ARCHITECTURES))
    metadata: dict[str, Any] = {}
    for _ in range(int(rng.integers(0, 3))):
        is_whole = rng.random() < 0.35
        key = str(rng.choice(WHOLE_KEYS)) if is_whole else f"{arch}.{rng.choice(KEYS)}"
        metadata[key] = _value(rng)
    write_model(path, arch, n_layer=N_LAYER, seed=int(rng.integers(3)), metadata=metadata)
    later: list[Callable[[np.random.Generator, Path], None]] = [_change_tensor, _change_bytes, _change_weights]
    n_later = int(rng.integers(0, 2)) if metadata else 1
    for _ in range(n_later):
        later[rng.integers(len(later))](rng, path)


def _value(rng: np.random.Generator) -> Any:
    pick = rng.random()
    if pick < 0.4:
        return int(rng.choice(WHOLE))
    if pick < 0.6:
        return float(rng.choice(BROKEN))
    if pick < 0.7:
        return str(rng.choice(TEXTS))
    if pick < 0.75:
        return bool(rng.random() < 0.5)
    if pick < 0.8:
        return None
    kind: tuple[Any, ...] = (WHOLE[:-2], BROKEN, TEXTS)[rng.integers(3)]  # whole numbers of a list have a sign
    n = int(rng.choice([1, N_LAYER, N_LAYER + 1, 4, 335]))
    return [kind[rng.integers(len(kind))] for _ in range(n)]


def _change_tensor(rng: np.random.Generator, path: Path) -> None:
    """One number, or one letter, in the entry of one tensor."""
    reader = GGUFReader(path, "r+")
    entry = reader.tensors[rng.integers(len(reader.tensors))].field
    name, shape, kind, offset = (entry.parts[part] for part in (1, 3, 4, 5))
    match rng.integers(4):
        case 0:
            name[rng.integers(len(name))] = ord("x")
        case 1:
            shape[rng.integers(len(shape))] = rng.choice(np.array(SHAPES, np.uint64))
        case 2:
            kind[0] = rng.choice(TYPES)
        case _:
            offset[0] = rng.choice(np.array([0, 1, 32, 64, 4096, 2**31, 2**40, 2**63], np.uint64))
    reader.data.flush()


def _change_bytes(rng: np.random.Generator, path: Path) -> None:
    """Some bytes before the weights."""
    content = bytearray(path.read_bytes())
    try:
        end = read_header(path).data_start
    except RelayliteError:
        end = len(content)
    for _ in range(int(rng.integers(1, 5))):
        content[rng.integers(min(end, len(content)))] = int(rng.integers(256))
    path.write_bytes(content)


def _change_weights(rng: np.random.Generator, path: Path) -> None:
    """A stretch of the weights becomes noise: numbers of any size, and such that are none."""
    content = bytearray(path.read_bytes())
    start = int(rng.integers(len(content) // 2, len(content)))
    n = min(int(rng.choice([2, 64, 4096])), len(content) - start)
    content[start : start + n] = rng.bytes(n)
    path.write_bytes(content)
