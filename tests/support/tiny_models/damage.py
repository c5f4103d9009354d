"""Files that are no good models: cut, empty, foreign, or with one wrong number in an otherwise whole tiny llama."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gguf import GGUFReader

from .writer import write_model

Maker = Callable[[Path], object]

_AFTER_MAGIC, _AFTER_VERSION = 4, 8
_HUGE = 2**40
_NAME, _SHAPE, _TYPE, _OFFSET = 1, 3, 4, 5  # parts of a tensor's entry in the header


def write_damaged(path: str | Path, damage: str) -> Path:
    """Writes what `damage` (a name in `DAMAGES`) is to `path` and gives the path back; of "missing", nothing is there then."""
    path = Path(path)
    _MAKERS[damage](path)
    return path


def _whole(path: Path, **metadata: Any) -> bytes:
    keys = {key.replace("__", "."): value for key, value in metadata.items()}
    return write_model(path, "llama", n_layer=1, metadata=keys).read_bytes()


def _bytes(change: Callable[[bytes], bytes]) -> Maker:
    """A maker that writes what `change` makes of the bytes of a whole model."""
    return lambda path: path.write_bytes(change(_whole(path)))


def _tensor(part: int, index: int, value: int) -> Maker:
    """A maker that changes one number in the header's entry of one tensor."""

    def make(path: Path) -> None:
        _whole(path)
        reader = GGUFReader(path, "r+")
        entry = next(tensor.field for tensor in reader.tensors if tensor.name == "blk.0.ffn_up.weight")
        entry.parts[part][index] = value
        reader.data.flush()

    return make


def _keys(**metadata: Any) -> Maker:
    """A maker that sets metadata (`__` stands for `.`, None removes a key)."""
    return lambda path: _whole(path, **metadata)


def _rename_architecture(whole: bytes) -> bytes:
    at = whole.index(b"llama", whole.index(b"general.architecture"))
    return whole[:at] + b"nosuc" + whole[at + 5 :]


_GIT_LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0123456789abcdef\nsize 1234567\n"
_COUNTS = b"GGUF" + (3).to_bytes(4, "little") + _HUGE.to_bytes(8, "little") * 2

_REFUSED: dict[str, Maker] = {
    "missing": lambda path: path.unlink(missing_ok=True),
    "folder": lambda path: path.mkdir(),
    "empty": lambda path: path.touch(),
    "zeros": lambda path: path.write_bytes(bytes(4096)),
    "git-lfs-pointer": lambda path: path.write_bytes(_GIT_LFS),
    "absurd-counts": lambda path: path.write_bytes(_COUNTS),
    "cut-in-magic": _bytes(lambda whole: whole[:2]),
    "cut-in-header": _bytes(lambda whole: whole[:2000]),
    "cut-in-weights": _bytes(lambda whole: whole[:-1000]),
    "wrong-magic": _bytes(lambda whole: b"GGML" + whole[_AFTER_MAGIC:]),
    "future-version": _bytes(lambda whole: b"GGUF" + (99).to_bytes(4, "little") + whole[_AFTER_VERSION:]),
    "big-endian": _bytes(lambda whole: b"GGUF" + (3).to_bytes(4, "big") + whole[_AFTER_VERSION:]),
    "unknown-architecture": _bytes(_rename_architecture),
    "zero-dimension": _tensor(_SHAPE, 1, 0),
    "huge-dimension": _tensor(_SHAPE, 1, _HUGE),
    "unknown-type": _tensor(_TYPE, 0, 250),
    "missing-tensor": _tensor(_NAME, -1, ord("X")),
    "weights-outside": _tensor(_OFFSET, 0, _HUGE),
    "wrong-shape": _keys(llama__feed_forward_length=160),
    "layers-without-weights": _keys(llama__block_count=2),
    "no-width": _keys(llama__embedding_length=None),
    "zero-width": _keys(llama__embedding_length=0),
    "zero-heads": _keys(llama__attention__head_count=0),
    "uneven-heads": _keys(llama__attention__head_count=3),
    "no-tokens": _keys(tokenizer__ggml__tokens=None),
    "too-few-tokens": _keys(tokenizer__ggml__tokens=["a", "b"], tokenizer__ggml__token_type=[1, 1]),
    "no-tokenizer": _keys(tokenizer__ggml__model=None),
    "unknown-tokenizer": _keys(tokenizer__ggml__pre="nosuch"),
}
_ABORTED: dict[str, Maker] = {
    "no-layers": _keys(llama__block_count=0),
    "absurd-layers": _keys(llama__block_count=5000),
    "unknown-rope-scaling": _keys(llama__rope__scaling__type="nosuch"),
    "experts-unused": _keys(llama__expert_count=2),
    "experts-missing": _keys(llama__expert_count=2, llama__expert_used_count=4),
    "same-token-twice": _keys(tokenizer__ggml__tokens=["a", "a"], tokenizer__ggml__token_type=[1, 1]),
}
_MAKERS = _REFUSED | _ABORTED

DAMAGES: tuple[str, ...] = tuple(_MAKERS)
ABORTING: tuple[str, ...] = tuple(_ABORTED)
"""The damages on which llama.cpp ends the process (an assertion) instead of refusing: they must be seen before it reads the file."""
