"""Writes a tiny random model of an architecture of the table as a GGUF file that llama.cpp loads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter, quants

from .architecture import Architecture, PerLayer
from .table import TABLE
from .templates import TEMPLATES
from .vocabulary import Vocabulary, make_vocabulary
from .weights import make_weight

ARCHITECTURES: tuple[str, ...] = tuple(TABLE)

_N_CTX_TRAIN = 4096
_VALUE_TYPES = {bool: GGUFValueType.BOOL, int: GGUFValueType.UINT32, float: GGUFValueType.FLOAT32, str: GGUFValueType.STRING}


def write_model(
    path: str | Path,
    arch: str,
    *,
    n_layer: int | None = None,
    seed: int = 0,
    weights: str = "F16",
    template: str | None = "chatml",
    vocab: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Writes the model `arch` of the table to `path` and gives the path back.

    `n_layer` is by default 3, or what it takes to show every kind of layer that the architecture has. `weights` is the type
    of the matrices (F32, F16, Q8_0, Q4_0, …); vectors stay F32. `template` is a name in `TEMPLATES`, a template's own text, or
    None for a model without one. `vocab` is "bpe" or "spm", by default the architecture's. `metadata` adds or replaces whole
    keys (`llama.context_length`); a value of None removes the key.
    """
    model = TABLE[arch]
    n_layer = model.n_layer if n_layer is None else n_layer
    vocabulary = make_vocabulary(vocab or model.vocab)
    writer = GGUFWriter(path, model.gguf_name)
    values = {
        **_model_metadata(model, n_layer),
        **_vocabulary_metadata(vocabulary, template),
        "general.name": "tiny random model",
        **(metadata or {}),
    }
    for key, value in values.items():
        if value is not None:
            _add_value(writer, key, value)
    dims = {**model.all_dims(), "vocab": len(vocabulary.tokens), "ctx": _N_CTX_TRAIN}
    for name, shape in _tensor_shapes(model, n_layer, dims):
        data = make_weight(name, shape, seed, model)
        dtype = _storage_type(name, shape, GGMLQuantizationType[weights])
        writer.add_tensor(name, quants.quantize(data, dtype), raw_dtype=dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Path(path)


def _tensor_shapes(model: Architecture, n_layer: int, dims: Mapping[str, int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    named = {"token_embd.weight": "embd vocab", f"{model.output_norm}.weight": "embd", **model.model}
    if not model.is_tied:
        named["output.weight"] = "embd vocab"
    for layer in range(n_layer):
        named |= {f"blk.{layer}.{name}": shape for name, shape in model.layer(layer).items()}
    for name, shape in named.items():
        yield name, tuple(dims[dim] for dim in shape.split())


def _storage_type(name: str, shape: tuple[int, ...], wanted: GGMLQuantizationType) -> GGMLQuantizationType:
    is_matrix = len(shape) > 1 and shape[0] % 32 == 0 and not name.endswith((".bias", "ffn_gate_inp.weight"))
    return wanted if is_matrix else GGMLQuantizationType.F32


def _model_metadata(model: Architecture, n_layer: int) -> dict[str, Any]:
    dims = model.all_dims()
    keys = {
        "context_length": _N_CTX_TRAIN,
        "embedding_length": dims["embd"],
        "block_count": n_layer,
        "feed_forward_length": dims["ff"],
        "attention.head_count": dims["heads"],
        "attention.head_count_kv": dims["kv_heads"],
        "attention.key_length": dims["head"],
        "attention.value_length": dims["head"],
        "attention.layer_norm_rms_epsilon": 1e-5,
        "attention.layer_norm_epsilon": 1e-5,
        "rope.dimension_count": dims["rotary"],
        "rope.freq_base": 10_000.0,
        **model.metadata,
    }
    return {f"{model.gguf_name}.{key}": value.expand(n_layer) if isinstance(value, PerLayer) else value for key, value in keys.items()}


def _vocabulary_metadata(vocabulary: Vocabulary, template: str | None) -> dict[str, Any]:
    keys = {"tokens": vocabulary.tokens, "token_type": [int(t) for t in vocabulary.types], **vocabulary.metadata}
    text = TEMPLATES.get(template, template) if template is not None else None
    return {**{f"tokenizer.ggml.{key}": value for key, value in keys.items()}, "tokenizer.chat_template": text}


def _add_value(writer: GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, list):
        writer.add_array(key, value)
    else:
        writer.add_key_value(key, value, _VALUE_TYPES[type(value)])
