"""The only door to the compiled extension. Turns its codes into exceptions and numpy arrays into pointers; decides nothing.

llama_cpp is imported first: both must share one libllama in the process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import llama_cpp
import numpy as np
import numpy.typing as npt

from relaylite.errors import Cancelled, NativeError
from relaylite.reuse.plan import Segment
from relaylite.reuse.rows import Tokens

try:
    from relaylite._native import ffi, lib
except ImportError as error:
    raise NativeError(f"relaylite's extension does not load ({error}); install relaylite again") from error

F32 = npt.NDArray[np.float32]
F16 = npt.NDArray[np.float16]

LLAMA_CPP_PYTHON = "0.3.36"


class Unsupported(NativeError):
    """The model or context cannot do what was asked; the message names what is missing."""


def check_build() -> None:
    """Raise NativeError if the loaded ggml is of other sources than those that the extension was compiled against."""
    ggml_commit = llama_cpp.llama_cpp._lib.ggml_commit
    ggml_commit.restype = ctypes.c_char_p
    loaded, built = _source(ggml_commit().decode()), _source(_text(lib.relay_built_commit()))
    is_same = loaded == built if loaded and built else llama_cpp.__version__ == LLAMA_CPP_PYTHON
    if not is_same:
        found = loaded or f"of llama-cpp-python {llama_cpp.__version__}"
        raise NativeError(
            f"llama.cpp {found} is loaded, relaylite was built against {built or f'that of {LLAMA_CPP_PYTHON}'}: "
            f"run pip install llama-cpp-python=={LLAMA_CPP_PYTHON}"
        )


def _source(commit: str) -> str:
    """What names the sources, "" if nothing does: one release is "0c1e570-dirty" compiled by pip, which lacks files of the repository,
    "0c1e570" as a ready-made wheel, and "unknown" where there was no git."""
    return "" if commit == "unknown" else commit.removesuffix("-dirty")


def extra_buffers_work() -> bool:
    """Whether ggml's AMX and repacked weight layouts compute on this machine (tried out once)."""
    return bool(lib.relay_extra_buffers_work())


@dataclass(frozen=True, slots=True)
class Taken:
    """Bytes that a context takes over all devices; relay.h's relay_memory."""

    weights: int
    cache: int
    compute: int


def memory_of(context: int) -> Taken:
    """What the llama_context at this address takes, or would take if its model is a `llama.Sketch`."""
    out = ffi.new("relay_memory *")
    _check(lib.relay_memory_read(ffi.cast("struct llama_context *", context), out))
    return Taken(int(out.weights), int(out.cache), int(out.compute))


def _text(pointer: Any) -> str:
    return bytes(ffi.string(pointer)).decode("utf-8", "replace")


def _check(code: int) -> None:
    if code == lib.RELAY_OK:
        return
    text = _text(lib.relay_error_text())
    if code == lib.RELAY_STOPPED:
        raise Cancelled("stopped")
    if code == lib.RELAY_UNSUPPORTED:
        raise Unsupported(text)
    raise NativeError(text)


def _pointer(array: npt.NDArray[Any] | None, ctype: str) -> Any:
    return ffi.NULL if array is None else ffi.cast(f"{ctype} *", ffi.from_buffer(array))


class _Handle:
    """A native object that is freed once."""

    def __init__(self, pointer: Any, free: Any) -> None:
        if pointer == ffi.NULL:
            raise NativeError("out of memory")
        self._pointer, self._free = pointer, free

    @property
    def pointer(self) -> Any:
        if self._pointer is None:
            raise NativeError("used after close")
        return self._pointer

    @property
    def address(self) -> int:
        return int(ffi.cast("uintptr_t", self.pointer))

    def close(self) -> None:
        if self._pointer is not None:
            self._free(self._pointer)
            self._pointer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Stop(_Handle):
    """A flag that ends llama.cpp's and our computations within one graph node; set from any thread."""

    def __init__(self) -> None:
        super().__init__(lib.relay_stop_new(), lib.relay_stop_free)

    callback = int(ffi.cast("uintptr_t", ffi.addressof(lib, "relay_stop_callback")))

    def set(self, is_set: bool) -> None:
        lib.relay_stop_set(self.pointer, is_set)

    @property
    def is_set(self) -> bool:
        return bool(lib.relay_stop_get(self.pointer))


class Capture(_Handle):
    """Hidden states seen while llama.cpp decodes, F16 per position, under the names of graph nodes."""

    def __init__(self, n_positions: int) -> None:
        super().__init__(lib.relay_capture_new(n_positions), lib.relay_capture_free)
        self.widths: dict[str, int] = {}

    callback = int(ffi.cast("uintptr_t", ffi.addressof(lib, "relay_capture_callback")))

    def watch(self, widths: dict[str, int]) -> None:
        """Capture these nodes from now on: name → width. Forgets what was captured."""
        names = [ffi.new("char[]", name.encode()) for name in widths]
        _check(lib.relay_capture_watch(self.pointer, len(names), ffi.new("char *[]", names), ffi.new("int32_t[]", list(widths.values()))))
        self.widths = dict(widths)

    def seek(self, position: int) -> None:
        """The next tokens computed stand at `position` and after; what was captured from there on is forgotten."""
        _check(lib.relay_capture_seek(self.pointer, position))

    def read(self, name: str, start: int, end: int) -> F16:
        """float16 `[end − start, width]`, NaN where nothing was captured."""
        out = np.empty((end - start, self.widths[name]), np.float16)
        i = list(self.widths).index(name)
        _check(lib.relay_capture_read(self.pointer, i, start, end, _pointer(out, "uint16_t"), out.size))
        return out

    def write(self, name: str, start: int, vectors: F16) -> None:
        """Set the vectors of positions from `start` on, float16 `[n, width]`."""
        values = np.ascontiguousarray(vectors, np.float16)
        i = list(self.widths).index(name)
        _check(lib.relay_capture_write(self.pointer, i, start, start + len(values), _pointer(values, "uint16_t"), values.size))


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """What the graph says about the cache; relay.h's relay_info."""

    n_layer: int
    n_cells: int
    n_embd: int
    n_attn: int
    n_vocab: int
    n_batch: int
    n_window: int
    type_k: int
    type_v: int
    can_rotate: bool
    can_slice: bool


@dataclass(frozen=True, slots=True)
class LayerInfo:
    """One layer's rows; relay.h's relay_layer."""

    k_bytes: int
    v_bytes: int
    v_width: int
    n_attn: int
    n_head: int
    n_window: int
    has_rope: bool


@dataclass(slots=True)
class SliceResult:
    """What a slice gave back; None where it was not asked for. Shapes as in relay.h."""

    hidden: F32 | None = None
    v: F32 | None = None
    attention: F32 | None = None
    mass: F32 | None = None
    logits: F32 | None = None


def _segments(segments: Sequence[Segment], start: int) -> Any:
    """relay_segments of `segments`, which must follow one another from position `start` on. Raises NativeError if they do not."""
    out, position = ffi.new("relay_segment[]", len(segments)), start
    for one, segment in zip(out, segments, strict=True):
        if segment.start != position:
            raise NativeError(f"rows for position {segment.start} cannot be placed at {position}")
        one.n, position = segment.end - segment.start, segment.end
        if segment.rows is not None:
            one.data = _pointer(segment.rows.data, "uint8_t")
            one.n_run, one.first, one.delta = len(segment.rows), segment.offset, segment.rotation
    return out


class Cache(_Handle):
    """The live sequence of one llama_context: its rows, and slices of the model's layers over them."""

    def __init__(self, context: int, n_threads: int, stop: Stop | None) -> None:
        out = ffi.new("relay_context **")
        pointer = ffi.cast("struct llama_context *", context)
        _check(lib.relay_open(pointer, n_threads, ffi.NULL if stop is None else stop.pointer, out))
        super().__init__(out[0], lib.relay_close)
        info = ffi.new("relay_info *")
        _check(lib.relay_describe(self.pointer, info))
        self.info = CacheInfo(
            info.n_layer, info.n_cells, info.n_embd, info.n_attn, info.n_vocab, info.n_batch, info.n_window,
            info.type_k, info.type_v, bool(info.can_rotate), bool(info.can_slice),
        )  # fmt: skip
        self.layers = tuple(self._describe_layer(il) for il in range(self.info.n_layer))
        self.k_bytes = tuple(layer.k_bytes for layer in self.layers)
        self.v_bytes = tuple(layer.v_bytes for layer in self.layers)

    def _describe_layer(self, il: int) -> LayerInfo:
        layer = ffi.new("relay_layer *")
        _check(lib.relay_describe_layer(self.pointer, il, layer))
        return LayerInfo(layer.k_bytes, layer.v_bytes, layer.v_width, layer.n_attn, layer.n_head, layer.n_window, bool(layer.has_rope))

    @property
    def refusal(self) -> str:
        """Why rows cannot be moved or layers recomputed, "" if they can."""
        return _text(lib.relay_refusal(self.pointer))

    def __len__(self) -> int:
        n = ffi.new("int32_t *")
        _check(lib.relay_length(self.pointer, n))
        return int(n[0])

    def truncate(self, start: int) -> None:
        """Drop positions from `start` on."""
        _check(lib.relay_truncate(self.pointer, start))

    def append(self, segments: Sequence[Segment]) -> None:
        """Append `segments`, which begin where the live sequence ends. Their K is rotated; cells without rows are left to be filled.

        Raises NativeError if they do not begin there or do not fit, Damaged, or Cancelled. Nothing is appended then.
        """
        for segment in segments:
            if segment.rows is not None:
                segment.rows.bring()
        _check(lib.relay_append(self.pointer, _segments(segments, len(self)), len(segments)))

    def write(self, segments: Sequence[Segment], layers: range) -> None:
        """Write the rows of `layers` into cells of the live sequence. `segments` follow one another; those without rows are left alone.

        Raises NativeError if there are no such cells or layers, Damaged, or Cancelled.
        """
        for segment in segments:
            if segment.rows is not None:
                segment.rows.bring(layers)
        start = segments[0].start if segments else 0
        _check(lib.relay_write(self.pointer, start, _segments(segments, start), len(segments), layers.start, layers.stop))

    def read(self, start: int, end: int, *, heeds_stop: bool = False) -> npt.NDArray[np.uint8]:
        """Rows of positions `[start, end)`, layer-major as in `Rows.data`. Raises Cancelled between two layers if it `heeds_stop`."""
        out = np.empty(max(end - start, 0) * (sum(self.k_bytes) + sum(self.v_bytes)), np.uint8)
        _check(lib.relay_read(self.pointer, start, end, _pointer(out, "uint8_t"), out.size, heeds_stop))
        return out

    def rotate(self, start: int, end: int, delta: int) -> None:
        """Move K of positions `[start, end)` by `delta` positions, in every layer."""
        _check(lib.relay_rotate(self.pointer, start, end, delta))

    def mark(self, last: int) -> None:
        """Before llama.cpp computes up to position `last`."""
        _check(lib.relay_mark(self.pointer, last))

    def check(self, last: int) -> None:
        """After it did: raises NativeError if cell `last` was not written."""
        _check(lib.relay_check(self.pointer, last))

    def slice(
        self,
        layers: tuple[int, int],
        positions: Tokens,
        *,
        tokens: Tokens | None = None,
        hidden: F32 | None = None,
        write_end: int | None = None,
        n_probe: int = 0,
        is_bitwise: bool = True,
        want: tuple[str, ...] = (),
    ) -> SliceResult:
        """Run layers `[first, end)` for the tokens at `positions` (ascending); relay.h's relay_slice.

        `tokens` int32 `[n]` if first is 0, else `hidden` float32 `[n, n_embd]`. K and V are written for `[first, write_end)`, by
        default for all layers that run.
        `is_bitwise`: equal llama_decode bit for bit; False is equal to rounding, and faster for few tokens on the CPU.
        `want` names results: "hidden", "v", "attention", "mass" (of the last `n_probe` tokens), "logits".
        """
        first, end = layers
        n, info = len(positions), self.info
        probed = self.layers[end] if 0 <= end < info.n_layer else self.layers[0]
        shapes = {
            "hidden": (n, info.n_embd), "v": (n, probed.v_width), "attention": (n, probed.n_attn), "mass": (len(self),),
            "logits": (info.n_vocab,),
        }  # fmt: skip
        out = {name: np.empty(shapes[name], np.float32) for name in want}
        where = np.ascontiguousarray(positions, np.int32)
        ids = None if tokens is None else np.ascontiguousarray(tokens, np.int32)
        entering = None if hidden is None else np.ascontiguousarray(hidden, np.float32)
        if (ids is not None and ids.shape != (n,)) or (entering is not None and entering.shape != (n, info.n_embd)):
            raise NativeError(f"tokens or hidden states do not match {n} positions")
        args = ffi.new("relay_slice *")
        args.first, args.end, args.n_tokens, args.n_probe = first, end, n, n_probe
        args.is_bitwise = is_bitwise
        args.write_end = end if write_end is None else write_end
        args.tokens, args.hidden = _pointer(ids, "int32_t"), _pointer(entering, "float")
        args.positions = _pointer(where, "int32_t")
        args.hidden_out, args.v_out = _pointer(out.get("hidden"), "float"), _pointer(out.get("v"), "float")
        args.attn_out, args.mass = _pointer(out.get("attention"), "float"), _pointer(out.get("mass"), "float")
        args.logits = _pointer(out.get("logits"), "float")
        _check(lib.relay_slice_run(self.pointer, args))
        return SliceResult(**out)
