"""`Adapter`: a LoRA file and its scale. Judged before llama.cpp sees the file, since some of what it does not expect ends the process."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from relaylite.errors import ModelFileError, UsageError
from relaylite.gguf.header import FLOAT32, ModelFile, TensorEntry, part_names, read_header
from relaylite.paths import expanded

_A, _B = ".lora_a", ".lora_b"
_IGNORED = "_norm.weight"  # llama.cpp skips these
_EMBEDDING, _ALPHA = "token_embd.weight", "adapter.lora.alpha"
_TYPES = (0, 1, 8, 30)  # ggml's F32, F16, Q8_0, BF16: those that convert_lora_to_gguf.py writes; with some others llama.cpp crashes
_FLOAT32_MAX = 3.4e38


@dataclass(frozen=True, slots=True)
class Adapter:
    """What the weights get added: `scale` times the product of the file's matrices, and times its alpha over its rank."""

    path: Path
    scale: float = 1.0

    def __str__(self) -> str:
        return f"{self.path}:{self.scale:.9g}"


def parse_adapter(text: str) -> Adapter:
    """`FILE` or `FILE:SCALE`, as llama.cpp writes it. Raises UsageError for a scale that no 32-bit number can be."""
    file, _, scale = text.rpartition(":")
    try:
        number = float(scale)
    except ValueError:
        file, number = "", 1.0
    if not file or expanded(text).exists():
        return Adapter(expanded(text))
    if not abs(number) <= _FLOAT32_MAX:
        raise UsageError(f"an adapter's scale must be a finite number, not {scale!r}")
    return Adapter(expanded(file), number)


def read_adapters(texts: Sequence[str], model: Path) -> tuple[Adapter, ...]:
    """The adapters that `texts` name, each checked against the weights of `model`; those of scale 0 change nothing and are left out.

    Raises UsageError for a text that names none or a file named twice, ModelFileError for a file that is no LoRA of this model.
    """
    named = [parse_adapter(text) for text in texts]
    for at, adapter in enumerate(named):
        if any(adapter.path.resolve() == other.path.resolve() for other in named[:at]):
            raise UsageError(f"the adapter {adapter.path} is named twice; give it once, with the scale that is wanted")
    if named:
        headers = [read_header(model.with_name(name)) for name in part_names(model.name)]
        weights = {tensor.name: tensor for header in headers for tensor in header.tensors}
        for adapter in named:
            file = read_header(adapter.path, if_missing="; an adapter is FILE or FILE:SCALE")
            if problem := _problem(file, headers[0].architecture, weights):
                raise ModelFileError(f"{adapter.path} {problem}")
    return tuple(adapter for adapter in named if adapter.scale != 0.0)


def _problem(file: ModelFile, architecture: str, weights: Mapping[str, TensorEntry]) -> str:
    """What keeps llama.cpp from adding these matrices to `weights`, and what to do; "" if nothing does."""
    kind = file.metadata.get("general.type"), file.metadata.get("adapter.type")
    if kind != ("adapter", "lora"):
        return f"is not a LoRA adapter: it is of type {kind[0]!r}; llama.cpp's convert_lora_to_gguf.py makes one"
    if file.architecture != architecture:
        return f"is an adapter for {file.architecture!r} and the model is {architecture!r}; name one made for it"
    if file.types.get(_ALPHA, FLOAT32) != FLOAT32 or not math.isfinite(file.metadata.get(_ALPHA, 0.0)):
        return f"is damaged: {_ALPHA!r} is no finite 32-bit number; convert it again"
    if "adapter.alora.invocation_tokens" in file.lengths:
        return "is an aLoRA, which acts behind certain tokens only; relaylite applies plain LoRA adapters"
    tensors = {tensor.name: tensor for tensor in file.tensors if not tensor.name.endswith(_IGNORED)}
    if not tensors:
        return "changes no weight; name another adapter, or none"
    if any(name.startswith(_EMBEDDING) for name in tensors) and "output.weight" not in weights:  # llama.cpp ends the process
        return "changes the embedding, which is this model's output too: llama.cpp cannot apply that; leave it out"
    if strange := next((name for name in tensors if not name.endswith((_A, _B))), ""):
        return f"holds {strange!r}, which is no part of a LoRA; convert it again"
    for name in sorted({name[: -len(_A)] for name in tensors}):
        if not _fits(name, (tensors.get(name + _A), tensors.get(name + _B)), weights.get(name)):
            return f"does not fit the model's weight {name!r}; name an adapter made for this very model"
    return ""


def _fits(name: str, pair: tuple[TensorEntry | None, TensorEntry | None], weight: TensorEntry | None) -> bool:
    """Whether B·A is as large as the weight; an embedding's pair is written the other way round (llama-adapter.cpp)."""
    a, b = pair
    if a is None or b is None or weight is None or len(weight.shape) < 2:
        return False
    (a_in, a_out, *a_more), (b_in, b_out, *b_more), (n_in, n_out, *more) = (_matrix(tensor) for tensor in (a, b, weight))
    if not a_more == b_more == more or a.type not in _TYPES or b.type not in _TYPES:
        return False
    if name == _EMBEDDING:
        return (a_in, a_out, b_out) == (b_in, n_out, n_in)
    return (a_in, a_out, b_out) == (n_in, b_in, n_out)


def _matrix(tensor: TensorEntry) -> tuple[int, ...]:
    """The shape, in ggml's four dimensions."""
    return tensor.shape + (1,) * (4 - len(tensor.shape))
