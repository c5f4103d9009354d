"""A model with its context and cache, opened as the engine opens them, for tests of the native extension."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from relaylite.engine import llama, native
from relaylite.engine.cache import Cache
from relaylite.reuse.plan import Kind, Segment
from relaylite.reuse.rows import RowLayout, Rows, Tokens

Bytes = npt.NDArray[np.uint8]


class Part(NamedTuple):
    """Slots that a test fills: rows `[first, first + n)` of `rows`, K rotated by `delta` positions, or (`rows` None) `n` empty ones."""

    n: int
    rows: Rows | None = None
    first: int = 0
    delta: int = 0

    def at(self, start: int) -> Segment:
        """As a segment that begins at `start`; its rows say that they stood where that needs this rotation."""
        if self.rows is None:
            return Segment(start, start + self.n, Kind.NEW)
        return Segment(start, start + self.n, Kind.SPAN, replace(self.rows, position=start - self.first - self.delta), self.first)


def tiled(start: int, parts: Sequence[Part]) -> list[Segment]:
    """The parts one after another, from position `start` on."""
    segments: list[Segment] = []
    for part in parts:
        segments.append(part.at(segments[-1].end if segments else start))
    return segments


@dataclass(frozen=True)
class LiveModel:
    """What one test works on. All calls come from one thread."""

    model: llama.Model
    context: llama.Context
    cache: Cache
    capture: native.Capture
    stop: native.Stop

    @property
    def layout(self) -> RowLayout:
        return RowLayout(self.cache.k_bytes, self.cache.v_bytes, "test")

    @property
    def n_layer(self) -> int:
        return self.cache.info.n_layer

    def tokens(self, n: int, seed: int = 0) -> Tokens:
        """Random ids without control tokens."""
        return np.random.default_rng(seed).integers(20, self.model.vocab.n_tokens - 20, n).astype(np.int32)

    def append(self, parts: Sequence[Part]) -> None:
        """Place the parts behind the live sequence."""
        self.cache.append(tiled(len(self.cache), parts))

    def write(self, start: int, parts: Sequence[Part], layers: range) -> None:
        """Write these layers of the parts into slots from position `start` on."""
        self.cache.write(tiled(start, parts), layers)

    def decode(self, tokens: Tokens | Sequence[int], *, batch: int | None = None) -> npt.NDArray[np.float32]:
        """llama_decode behind the live sequence, `batch` tokens at a time (as many as fit by default); logits of the last."""
        ids = np.asarray(tokens, np.int32)
        step = batch or self.cache.info.n_batch
        for start in range(0, len(ids), step):
            part, n = ids[start : start + step], len(self.cache)
            self.cache.mark(n + len(part) - 1)
            assert self.context.decode(part, n) == 0
            self.cache.check(n + len(part) - 1)
        return self.context.logits()

    def decoded_rows(self, tokens: Tokens | Sequence[int], *, batch: int | None = None) -> tuple[Rows, npt.NDArray[np.float32]]:
        """Rows and last logits of `tokens` decoded from empty; the live sequence is empty again afterwards."""
        self.cache.truncate(0)
        logits = self.decode(tokens, batch=batch)
        rows = self.rows_of(self.cache.read(0, len(tokens)))
        self.cache.truncate(0)
        return rows, logits

    def rows_of(self, data: Bytes, position: int = 0) -> Rows:
        n = data.size // self.layout.token_bytes
        return Rows(np.zeros(n, np.int32), position, 0, data, self.layout)

    def live_rows(self) -> Rows:
        return self.rows_of(self.cache.read(0, len(self.cache)))

    def random_rows(self, n: int, seed: int = 0) -> Rows:
        """Rows whose bytes are small: finite numbers in every cache type."""
        return self.rows_of(np.random.default_rng(seed).integers(0, 60, n * self.layout.token_bytes).astype(np.uint8))


@contextmanager
def opened(
    path: Path,
    *,
    n_ctx: int = 512,
    n_batch: int = 128,
    n_threads: int = 1,
    type_k: str = "f16",
    type_v: str = "f16",
    n_gpu_layers: int = 0,
    devices: Sequence[int] = (),
) -> Iterator[LiveModel]:
    """The model at `path` with an empty live sequence. One thread by default: the machine that runs the tests may be busy."""
    llama.start()
    model = llama.Model(path, n_gpu_layers=n_gpu_layers, use_extra_buffers=native.extra_buffers_work(), devices=devices)
    stop, capture = native.Stop(), native.Capture(n_ctx)
    options = llama.ContextOptions(
        n_ctx=n_ctx, n_batch=n_batch, n_threads=n_threads, type_k=type_k, type_v=type_v,
        eval_callback=(native.Capture.callback, capture.address), abort_callback=(native.Stop.callback, stop.address),
    )  # fmt: skip
    context = llama.Context(model, options)
    try:
        with stop, capture, Cache(context.address, n_threads, stop) as cache:
            yield LiveModel(model, context, cache, capture, stop)
    finally:
        context.close()
        model.close()
