"""Fuzzes the native cells: rows in, moved, computed, captured, cut and read back in any order, with good and with impossible arguments.

A reference keeps the bytes of every position. After each step the live sequence must hold them; what is refused must change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from support.live_model import LiveModel, opened
from support.numpy_rope import ROPES, Rope
from support.tiny_models import write_model

from relaylite.engine.native import ffi, lib
from relaylite.reuse import row_numbers

Bytes = npt.NDArray[np.uint8]
N_STEPS = 30
MAX_RUN = 60
ODD = (-(2**31), -(2**31) + 1, -1000, -1, 0, 1, 2, 3, 40, 127, 128, 129, 511, 512, 513, 100_000, 2**31 - 2, 2**31 - 1)
REFUSED = {lib.RELAY_BAD_ARGUMENT, lib.RELAY_NO_SPACE, lib.RELAY_UNSUPPORTED}
# Of a row's largest value: what turning it may be off by, for positions as far away as these tests take them.
F16_STEP = 6e-8  # between the smallest numbers
TURN_ERROR = {"f32": 2e-3, "f16": 6e-3}


def run(rng: np.random.Generator, folder: Path) -> None:
    arch = str(rng.choice(list(ROPES)))
    kv_type = str(rng.choice(list(TURN_ERROR)))
    path = write_model(folder / "m.gguf", arch, n_layer=int(rng.integers(1, 4)))
    with opened(path, n_ctx=512, n_batch=int(rng.choice([32, 128])), type_k=kv_type, type_v=kv_type) as live:
        Episode(rng, live, ROPES[arch], TURN_ERROR[kv_type]).steps()


class Episode:
    """One model, its live sequence, and what must be in it: uint8 `[length, bytes of a token]`, layer by layer K, then V."""

    def __init__(self, rng: np.random.Generator, live: LiveModel, rope: Rope, turn_error: float) -> None:
        self.rng, self.live, self.rope, self.turn_error = rng, live, rope, turn_error
        self.cache = live.cache.pointer
        self.k_width, self.width = sum(live.cache.k_bytes), live.layout.token_bytes
        self.rows = np.empty((0, self.width), np.uint8)
        self.runs = [rng.integers(0, 60, (int(rng.integers(1, MAX_RUN)), self.width)).astype(np.uint8) for _ in range(3)]
        self.captured: dict[int, npt.NDArray[np.uint16]] = {}

    def steps(self) -> None:
        actions: list[Callable[[], None]] = [
            self.append, self.append, self.append, self.append_badly, self.write, self.truncate, self.read, self.rotate, self.decode,
            self.slice, self.slice_badly, self.stopped, self.capture, self.mark_badly,
        ]  # fmt: skip
        for _ in range(N_STEPS):
            actions[self.rng.integers(len(actions))]()
            assert len(self.live.cache) == len(self.rows)
            assert np.array_equal(self.held(), self.rows)

    # -- reading ---------------------------------------------------------------------------------------------------------

    @property
    def n(self) -> int:
        return len(self.rows)

    @property
    def n_slots(self) -> int:
        return int(self.live.cache.info.n_slots)

    def held(self, start: int = 0, end: int | None = None) -> Bytes:
        end = self.n if end is None else end
        return self.by_token(self.live.cache.read(start, end), end - start)

    def by_token(self, data: Bytes, n: int) -> Bytes:
        """Layer-major bytes as one line a token."""
        sizes = [*self.live.cache.k_bytes, *self.live.cache.v_bytes]
        ends = np.cumsum([size * n for size in sizes])
        return np.concatenate([data[end - size * n : end].reshape(n, size) for end, size in zip(ends, sizes, strict=True)], axis=1)

    def by_layer(self, rows: Bytes) -> Bytes:
        sizes = [*self.live.cache.k_bytes, *self.live.cache.v_bytes]
        return np.ascontiguousarray(np.concatenate([part.ravel() for part in np.split(rows, np.cumsum(sizes)[:-1], axis=1)]))

    def refused(self, code: int, codes: set[int] = REFUSED) -> None:
        text = ffi.string(lib.relay_error_text()).decode()
        assert code in codes, (code, text)
        assert text and "\n" not in text

    def check_turned(self, before: Bytes, after: Bytes, delta: int) -> None:
        """V is untouched, K turned as numpy says."""
        assert np.array_equal(after[:, self.k_width :], before[:, self.k_width :])
        if not len(before) or abs(delta) > 10_000:  # angles of such size have no digits left
            return
        start = 0
        for size in self.live.cache.k_bytes:
            old, new = (row_numbers.values(rows[:, start : start + size], self.live.cache.info.type_k) for rows in (before, after))
            assert np.abs(new - self.rope.turn(old, delta)).max(initial=0) <= self.turn_error * np.abs(old).max(initial=0) + F16_STEP
            start += size

    # -- steps -----------------------------------------------------------------------------------------------------------

    def random_segments(self) -> tuple[Any, list[tuple[Bytes | None, int, int]], list[Any]]:
        """relay_segments; what they mean (rows or None, n, delta); and what must stay alive."""
        keep, meaning = [], []
        segments = ffi.new("relay_segment[]", int(self.rng.integers(1, 7)))
        for segment in segments:
            if self.rng.random() < 0.2:
                segment.n = int(self.rng.integers(1, 40))
                meaning.append((None, int(segment.n), 0))
                continue
            rows = self.runs[self.rng.integers(len(self.runs))]
            first = int(self.rng.integers(len(rows)))
            n = int(self.rng.integers(1, len(rows) - first + 1))
            delta = 0 if self.rng.random() < 0.6 else int(self.rng.integers(-5000, 5000))
            data = self.by_layer(rows)
            keep.append(data)
            segment.data, segment.n_tokens, segment.first, segment.n = ffi.cast("uint8_t *", ffi.from_buffer(data)), len(rows), first, n
            segment.delta = delta
            meaning.append((rows[first : first + n], n, delta))
        return segments, meaning, keep

    def append(self) -> None:
        segments, meaning, _keep = self.random_segments()
        code = lib.relay_cache_append(self.cache, segments, len(segments))
        if sum(n for _, n, _ in meaning) > self.n_slots - self.n:
            self.refused(code, {lib.RELAY_NO_SPACE})
            return
        assert code == lib.RELAY_OK
        start = self.n
        after = self.by_token(self.live.cache.read(start, start + sum(n for _, n, _ in meaning)), sum(n for _, n, _ in meaning))
        at = 0
        for rows, n, delta in meaning:
            placed = after[at : at + n]
            if rows is not None and delta == 0:
                assert np.array_equal(placed, rows)
            elif rows is not None:
                self.check_turned(rows, placed, delta)
            at += n
        self.rows = np.concatenate([self.rows, after])

    def append_badly(self) -> None:
        segments, meaning, _keep = self.random_segments()
        kind, at = self.rng.integers(5), int(self.rng.integers(len(segments)))
        n_segments = len(segments)
        if kind == 0:
            segments[at].n = int(self.rng.choice([x for x in ODD if x <= 0]))
        elif kind == 1 and meaning[at][0] is not None:
            segments[at].first = int(self.rng.choice([-(2**31), -1, segments[at].n_tokens, 2**31 - 1]))
        elif kind == 2 and meaning[at][0] is not None:
            segments[at].n_tokens = int(self.rng.choice([-(2**31), -1, 0, segments[at].first + segments[at].n - 1]))
        elif kind == 3:
            n_segments = int(self.rng.choice([-(2**31), -1, 0]))
        else:
            segments[at].data, segments[at].n = ffi.NULL, int(self.rng.choice([513, 100_000, 2**31 - 1]))
        self.refused(lib.relay_cache_append(self.cache, segments if self.rng.random() < 0.9 else ffi.NULL, n_segments))

    def write(self) -> None:
        """Some layers of cells that are there already get other rows; all else stays."""
        segments, meaning, _keep = self.random_segments()
        n = sum(n for _, n, _ in meaning)
        p0 = int(self.rng.choice([*ODD, self.n, *range(0, self.n, 7)]))
        first, end = (int(self.rng.integers(-1, self.live.n_layer + 2)) for _ in range(2))
        code = lib.relay_cache_write(self.cache, p0, segments, len(segments), first, end)
        if not 0 <= p0 <= self.n - n or not 0 <= first <= end <= self.live.n_layer:
            self.refused(code)
            return
        assert code == lib.RELAY_OK
        after, columns = self.held(), self.columns([*range(first, end)])
        expected, at = self.rows.copy(), p0
        for rows, size, delta in meaning:
            if rows is not None:
                turned = after[at : at + size] if delta else rows  # V of rows that were moved is compared, K against numpy
                expected[at : at + size, columns] = turned[:, columns]
                if delta and (first, end) == (0, self.live.n_layer):
                    self.check_turned(rows, turned, delta)
            at += size
        assert np.array_equal(after, expected)
        self.rows = after

    def truncate(self) -> None:
        p0 = int(self.rng.choice(ODD)) if self.rng.random() < 0.3 else int(self.rng.integers(self.n + 1))
        code = lib.relay_cache_truncate(self.cache, p0)
        if not 0 <= p0 <= self.n:
            self.refused(code)
            return
        assert code == lib.RELAY_OK
        self.rows = self.rows[:p0]

    def read(self) -> None:
        p0, p1 = (int(self.rng.choice([*ODD, self.n, self.n // 2])) for _ in range(2))
        n = p1 - p0 if 0 <= p0 <= p1 <= self.n else 5
        out = np.empty(n * self.width, np.uint8)
        size = out.size if self.rng.random() < 0.8 else int(self.rng.integers(out.size + 1))
        pointer = ffi.cast("uint8_t *", ffi.from_buffer(out)) if out.size else ffi.NULL
        code = lib.relay_cache_read(self.cache, p0, p1, pointer, size, 0)
        if not 0 <= p0 <= p1 <= self.n or size != out.size:
            self.refused(code)
            return
        assert code == lib.RELAY_OK and np.array_equal(self.by_token(out, n), self.rows[p0:p1])

    def rotate(self) -> None:
        p0, p1, delta = (int(self.rng.choice([*ODD, self.n, self.n // 2, self.n // 3])) for _ in range(3))
        code = lib.relay_cache_rotate(self.cache, p0, p1, delta)
        if not 0 <= p0 <= p1 <= self.n:
            self.refused(code)
            return
        if code != lib.RELAY_OK:
            self.refused(code)
            return
        after = self.held()
        self.check_turned(self.rows[p0:p1], after[p0:p1], delta)
        self.rows = np.concatenate([self.rows[:p0], after[p0:p1], self.rows[p1:]])

    def decode(self) -> None:
        n = min(int(self.rng.integers(1, 70)), self.n_slots - self.n)
        if n == 0:
            return
        self.live.decode(self.live.tokens(n, int(self.rng.integers(100))))
        computed = self.by_token(self.live.cache.read(self.n, self.n + n), n)
        self.rows = np.concatenate([self.rows, computed])

    def slice(self) -> None:
        """Layers of some positions are computed; all other rows stay."""
        if self.n == 0:
            return
        n_layer = self.live.n_layer
        n = int(self.rng.integers(1, min(self.n, self.live.cache.info.n_batch) + 1))
        positions = np.sort(self.rng.choice(self.n, n, replace=False)).astype(np.int32)
        first, end = sorted(int(x) for x in self.rng.integers(0, n_layer + 1, 2))
        args, results, _keep = self.slice_arguments(positions, first, end)
        code = lib.relay_cache_run_slice(self.cache, args)
        if code != lib.RELAY_OK:
            self.refused(code)
            return
        after = self.held()
        layers = [*range(first, args.write_end)]
        written = self.columns(layers)
        expected = self.rows.copy()
        expected[np.ix_(positions, written)] = after[np.ix_(positions, written)]
        assert np.array_equal(after, expected)
        for name, values in results.items():
            assert not np.isnan(values).any() or name == "hidden_out", name
        self.rows = after

    def columns(self, layers: list[int]) -> npt.NDArray[np.int64]:
        """Bytes of a token's line that belong to these layers."""
        sizes = [*self.live.cache.k_bytes, *self.live.cache.v_bytes]
        starts = np.cumsum([0, *sizes])
        parts = [*layers] + [il + self.live.n_layer for il in layers]
        return np.concatenate([np.arange(starts[i], starts[i + 1]) for i in parts] or [np.empty(0, np.int64)])

    def slice_arguments(self, positions: npt.NDArray[np.int32], first: int, end: int) -> tuple[Any, dict[str, Any], list[Any]]:
        """Arguments that may well be right; every buffer is as large as a batch needs."""
        info, size = self.live.cache.info, max(self.live.cache.info.n_batch, len(positions))
        where = np.zeros(size, np.int32)
        where[: len(positions)] = positions
        tokens = self.rng.integers(0, info.n_vocab, size).astype(np.int32)
        hidden = self.rng.standard_normal((size, info.n_embd)).astype(np.float32)
        layer = self.live.cache.layers[min(end, info.n_layer - 1)]
        widths = {"hidden_out": size * info.n_embd, "v_out": size * layer.v_width, "attn_out": size * layer.n_attn}
        widths |= {"mass": self.n_slots, "logits": info.n_vocab}
        possible = ("logits",) if end == info.n_layer else ("hidden_out", "v_out", "attn_out", "mass")
        results = {name: np.zeros(widths[name], np.float32) for name in possible if self.rng.random() < 0.4}
        args = ffi.new("relay_slice *")
        args.first, args.end, args.n_tokens = first, end, len(positions)
        args.write_end = int(self.rng.choice([first, end, min(end + 1, info.n_layer)]))
        args.is_bitwise, args.n_probe = int(self.rng.integers(2)), int(self.rng.integers(1, len(positions) + 1))
        args.tokens, args.hidden = ffi.cast("int32_t *", ffi.from_buffer(tokens)), ffi.cast("float *", ffi.from_buffer(hidden))
        args.positions = ffi.cast("int32_t *", ffi.from_buffer(where))
        for name, values in results.items():
            setattr(args, name, ffi.cast("float *", ffi.from_buffer(values)))
        return args, results, [where, tokens, hidden, results]

    def slice_badly(self) -> None:
        """One argument is odd. If it is taken all the same, only the named positions may change."""
        if self.n == 0:
            return
        positions = np.arange(min(self.n, 3), dtype=np.int32)
        args, _results, keep = self.slice_arguments(positions, 0, int(self.rng.integers(self.live.n_layer + 1)))
        field = str(self.rng.choice(["first", "end", "n_tokens", "write_end", "n_probe", "positions", "tokens", "null", "all"]))
        if field in ("positions", "tokens"):
            keep[0 if field == "positions" else 1][int(self.rng.integers(3))] = int(self.rng.choice(ODD))
        elif field == "null":
            setattr(args, str(self.rng.choice(["tokens", "hidden", "positions"])), ffi.NULL)
        elif field == "all":
            for name in ("first", "end", "n_tokens", "write_end", "n_probe"):
                setattr(args, name, int(self.rng.choice(ODD)))
        else:
            setattr(args, field, int(self.rng.choice(ODD)))
        n_touched = max(0, min(args.n_tokens, self.n))
        touched = keep[0][:n_touched].copy()
        code = lib.relay_cache_run_slice(self.cache, args)
        if code != lib.RELAY_OK:
            self.refused(code, {*REFUSED, lib.RELAY_FAILED})
            return
        after = self.held()
        changed = np.flatnonzero((after != self.rows).any(axis=1))
        assert np.isin(changed, touched).all()
        self.rows = after

    def stopped(self) -> None:
        """With the flag set: nothing is appended, whatever was to be."""
        self.live.stop.set(True)
        segments, meaning, _keep = self.random_segments()
        n = sum(n for _, n, _ in meaning)
        code = lib.relay_cache_append(self.cache, segments, len(segments))
        self.live.stop.set(False)
        if n > self.n_slots - self.n:
            self.refused(code, {lib.RELAY_NO_SPACE})
            return
        if code == lib.RELAY_OK:  # nothing had to be computed
            assert all(delta == 0 for _, _, delta in meaning)
            self.rows = np.concatenate([self.rows, self.by_token(self.live.cache.read(self.n, self.n + n), n)])
        else:
            assert code == lib.RELAY_STOPPED

    def mark_badly(self) -> None:
        position = int(self.rng.choice(ODD))
        if not self.n <= position < self.n_slots:
            self.refused(lib.relay_cache_mark(self.cache, position))
        if position != self.n - 1:
            self.refused(lib.relay_cache_check(self.cache, position), {*REFUSED, lib.RELAY_BREACH})

    def capture(self) -> None:
        """Vectors go in and come out; positions outside are refused. Forgets what was captured while decoding."""
        capture, n_positions = self.live.capture.pointer, 512
        names = [ffi.new("char[]", name) for name in (b"l_out-0", b"kqv_out-0", b"no such node")[: int(self.rng.integers(4))]]
        widths = [int(self.rng.choice([1, 7, 64, *([0, -1, 2**31 - 1] if self.rng.random() < 0.2 else [])])) for _ in names]
        code = lib.relay_capture_watch(capture, len(names), ffi.new("char *[]", names), ffi.new("int32_t[]", widths))
        if code == lib.RELAY_OK and names and max(widths) < 1000:
            i, p0, n = int(self.rng.integers(len(names))), int(self.rng.integers(n_positions)), int(self.rng.integers(1, 9))
            given = self.rng.integers(0, 30_000, (n, widths[i])).astype(np.uint16)
            pointer = ffi.cast("uint16_t *", ffi.from_buffer(given))
            written = lib.relay_capture_write(capture, i, p0, p0 + n, pointer, given.size)
            back = np.zeros_like(given)
            read = lib.relay_capture_read(capture, i, p0, p0 + n, ffi.cast("uint16_t *", ffi.from_buffer(back)), back.size)
            assert written == read == (lib.RELAY_OK if p0 + n <= n_positions else lib.RELAY_BAD_ARGUMENT)
            assert np.array_equal(back, given) or p0 + n > n_positions
            odd = [int(self.rng.choice(ODD)) for _ in range(3)]
            if not (0 <= odd[0] < len(names) and 0 <= odd[1] <= odd[2] <= n_positions and (odd[2] - odd[1]) * widths[odd[0]] == back.size):
                self.refused(lib.relay_capture_read(capture, *odd, ffi.cast("uint16_t *", ffi.from_buffer(back)), back.size))
        position = int(self.rng.choice(ODD))
        code = lib.relay_capture_seek(capture, position)
        assert code == lib.RELAY_OK if 0 <= position <= n_positions else code == lib.RELAY_BAD_ARGUMENT
        self.live.capture.watch({})
