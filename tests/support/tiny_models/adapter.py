"""Writes a random LoRA for a model file, as llama.cpp's convert_lora_to_gguf.py would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter

ALL = (
    "attn_q.weight",
    "attn_k.weight",
    "attn_v.weight",
    "attn_output.weight",
    "attn_qkv.weight",
    "ffn_gate.weight",
    "ffn_down.weight",
    "_exps.weight",
)
_TYPES = {str: GGUFValueType.STRING, float: GGUFValueType.FLOAT32, np.float64: GGUFValueType.FLOAT64}


def write_adapter(
    path: Path,
    model: Path,
    *,
    rank: int = 4,
    seed: int = 0,
    parts: Sequence[str] = ALL,
    keys: Mapping[str, Any] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    dtype: Any = np.float32,
) -> Path:
    """Matrices for the weights of `model` whose names end in one of `parts`; alpha is twice the rank. Gives `path` back.

    `keys` adds or replaces metadata, a value of None removes it. `shapes` does so with tensors, in numpy's order: () removes one;
    those are of type `dtype`.
    """
    reader, rng = GGUFReader(model), np.random.default_rng(seed)
    architecture = str(reader.fields["general.architecture"].contents())
    values = {"general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 2.0 * rank, "general.architecture": architecture}
    values |= keys or {}
    writer = GGUFWriter(path, architecture)
    writer.kv_data[0].clear()
    for key, value in values.items():
        if isinstance(value, list):
            writer.add_array(key, value)
        elif value is not None:
            writer.add_key_value(key, value, _TYPES[type(value)])
    wanted: dict[str, tuple[int, ...]] = {}
    for tensor in reader.tensors:
        if tensor.name.endswith(tuple(parts)):
            n_in, n_out, *more = (int(n) for n in tensor.shape)
            wanted[f"{tensor.name}.lora_a"] = (*reversed(more), rank, n_in)
            wanted[f"{tensor.name}.lora_b"] = (*reversed(more), n_out, rank)
    for name, shape in (wanted | dict(shapes or {})).items():
        if shape:
            values_of = rng.standard_normal(shape) * 0.1
            writer.add_tensor(name, values_of.astype(dtype if name in (shapes or {}) else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
