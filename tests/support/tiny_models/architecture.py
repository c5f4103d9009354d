"""What describes a tiny architecture: dimensions, metadata and tensors, as plain values. No weights, no files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Tensors = Mapping[str, str]
"""Name of a tensor (in a layer: without `blk.<i>.`) → its shape in ggml's order, by names of dimensions."""

_DIMS = {"embd": 128, "heads": 4, "kv_heads": 2, "head": 64, "ff": 192, "experts": 4, "expert_ff": 64}


@dataclass(frozen=True)
class Architecture:
    """A model's shape. `layers[i]` are the tensors of layer i; the last entry repeats for all further layers."""

    gguf_name: str
    layers: Sequence[Tensors]
    dims: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Keys without the architecture's prefix. An int is written as UINT32, a float as FLOAT32."""
    model: Tensors = field(default_factory=dict)
    """Tensors beside the layers that this model has in addition to embedding, final norm and output."""
    output_norm: str = "output_norm"
    is_tied: bool = False
    vocab: str = "bpe"
    embedding_std: float = 1.0
    n_layer: int = 3

    def layer(self, index: int) -> Tensors:
        return self.layers[min(index, len(self.layers) - 1)]

    def all_dims(self) -> dict[str, int]:
        """Every dimension that a shape may name; `q`, `k` and `v` are whole rows (heads × head)."""
        d = {**_DIMS, **self.dims}
        d = {"q": d["heads"] * d["head"], "k": d["kv_heads"] * d["head"], "rotary": d["head"], **d}
        return {**d, "v": d["k"], "qkv": d["q"] + 2 * d["k"], "ff2": 2 * d["ff"], "rotary_half": d["rotary"] // 2}


@dataclass(frozen=True)
class PerLayer:
    """A metadata value that differs by layer; the last one repeats."""

    values: tuple[Any, ...]

    def expand(self, n_layer: int) -> list[Any]:
        return [self.values[min(i, len(self.values) - 1)] for i in range(n_layer)]
