"""The live sequence's KV cache: rows in and out, and slices of the model's layers over them. native/relay.h is the contract.

It decides nothing. Positions are ranges `[start, end)`; rows are bytes, layer by layer as in `reuse.rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from relaylite.engine.native import F32, Handle, Stop, ffi, lib, pointer_to, raise_for, text_of
from relaylite.errors import NativeError
from relaylite.reuse.plan import Segment
from relaylite.reuse.rows import Tokens


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """What the graph says about the cache; relay.h's relay_cache_info."""

    n_layer: int
    n_slots: int
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
    """One layer's rows; relay.h's relay_layer_info."""

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
            one.data = pointer_to(segment.rows.data, "uint8_t")
            one.n_tokens, one.first, one.delta = len(segment.rows), segment.offset, segment.rotation
    return out


class Cache(Handle):
    """The live sequence of one llama_context: its rows, and slices of the model's layers over them."""

    def __init__(self, context: int, n_threads: int, stop: Stop | None) -> None:
        out = ffi.new("relay_cache **")
        pointer = ffi.cast("struct llama_context *", context)
        raise_for(lib.relay_cache_open(pointer, n_threads, ffi.NULL if stop is None else stop.pointer, out))
        super().__init__(out[0], lib.relay_cache_close)
        self.info = self._describe()
        self.layers = tuple(self._describe_layer(il) for il in range(self.info.n_layer))
        self.k_bytes = tuple(layer.k_bytes for layer in self.layers)
        self.v_bytes = tuple(layer.v_bytes for layer in self.layers)

    def _describe(self) -> CacheInfo:
        info = ffi.new("relay_cache_info *")
        raise_for(lib.relay_cache_describe(self.pointer, info))
        return CacheInfo(
            n_layer=info.n_layer,
            n_slots=info.n_slots,
            n_embd=info.n_embd,
            n_attn=info.n_attn,
            n_vocab=info.n_vocab,
            n_batch=info.n_batch,
            n_window=info.n_window,
            type_k=info.type_k,
            type_v=info.type_v,
            can_rotate=bool(info.can_rotate),
            can_slice=bool(info.can_slice),
        )

    def _describe_layer(self, il: int) -> LayerInfo:
        layer = ffi.new("relay_layer_info *")
        raise_for(lib.relay_cache_describe_layer(self.pointer, il, layer))
        return LayerInfo(
            k_bytes=layer.k_bytes,
            v_bytes=layer.v_bytes,
            v_width=layer.v_width,
            n_attn=layer.n_attn,
            n_head=layer.n_head,
            n_window=layer.n_window,
            has_rope=bool(layer.has_rope),
        )

    @property
    def refusal(self) -> str:
        """Why rows cannot be moved or layers recomputed, "" if they can."""
        return text_of(lib.relay_cache_refusal(self.pointer))

    def __len__(self) -> int:
        n = ffi.new("int32_t *")
        raise_for(lib.relay_cache_length(self.pointer, n))
        return int(n[0])

    def truncate(self, start: int) -> None:
        """Drop positions from `start` on."""
        raise_for(lib.relay_cache_truncate(self.pointer, start))

    def append(self, segments: Sequence[Segment]) -> None:
        """Append `segments`, which begin where the live sequence ends. Their K is rotated; slots without rows are left to be filled.

        Raises NativeError if they do not begin there or do not fit, Damaged, or Cancelled. Nothing is appended then.
        """
        for segment in segments:
            if segment.rows is not None:
                segment.rows.bring()
        raise_for(lib.relay_cache_append(self.pointer, _segments(segments, len(self)), len(segments)))

    def write(self, segments: Sequence[Segment], layers: range) -> None:
        """Write the rows of `layers` into slots of the live sequence. `segments` follow one another; those without rows are left alone.

        Raises NativeError if there are no such slots or layers, Damaged, or Cancelled.
        """
        for segment in segments:
            if segment.rows is not None:
                segment.rows.bring(layers)
        start = segments[0].start if segments else 0
        raise_for(lib.relay_cache_write(self.pointer, start, _segments(segments, start), len(segments), layers.start, layers.stop))

    def read(self, start: int, end: int, *, heeds_stop: bool = False) -> npt.NDArray[np.uint8]:
        """Rows of positions `[start, end)`, layer-major as in `Rows.data`. Raises Cancelled between two layers if it `heeds_stop`."""
        out = np.empty(max(end - start, 0) * (sum(self.k_bytes) + sum(self.v_bytes)), np.uint8)
        raise_for(lib.relay_cache_read(self.pointer, start, end, pointer_to(out, "uint8_t"), out.size, heeds_stop))
        return out

    def rotate(self, start: int, end: int, delta: int) -> None:
        """Move K of positions `[start, end)` by `delta` positions, in every layer."""
        raise_for(lib.relay_cache_rotate(self.pointer, start, end, delta))

    def mark(self, last: int) -> None:
        """Before llama.cpp computes up to position `last`."""
        raise_for(lib.relay_cache_mark(self.pointer, last))

    def check(self, last: int) -> None:
        """After it did: raises NativeError if slot `last` was not written."""
        raise_for(lib.relay_cache_check(self.pointer, last))

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
        args.tokens, args.hidden = pointer_to(ids, "int32_t"), pointer_to(entering, "float")
        args.positions = pointer_to(where, "int32_t")
        args.hidden_out, args.v_out = pointer_to(out.get("hidden"), "float"), pointer_to(out.get("v"), "float")
        args.attn_out, args.mass = pointer_to(out.get("attention"), "float"), pointer_to(out.get("mass"), "float")
        args.logits = pointer_to(out.get("logits"), "float")
        raise_for(lib.relay_cache_run_slice(self.pointer, args))
        return SliceResult(**out)
