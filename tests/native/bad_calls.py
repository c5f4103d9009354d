"""Calls every entry of relay.h with arguments that it must refuse. Run as a program, since what it looks for would end the process.

Prints a line of JSON a call, flushed: name, code, text. The last line printed before an abort names the call before the guilty one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.live_model import LiveModel, Part, opened

from relaylite.engine.native import ffi, lib

NULL = ffi.NULL
INT_MAX, INT_MIN = 2**31 - 1, -(2**31)
N = 10  # positions in the live sequence

BadCall = tuple[str, Callable[[], int]]


def buffer(live: LiveModel, n: int) -> Any:
    return ffi.new("uint8_t[]", n * live.layout.token_bytes)


def segment(**fields: Any) -> Any:
    return ffi.new("relay_segment[]", [fields])


def context_calls(live: LiveModel) -> Iterator[BadCall]:
    address = ffi.cast("struct llama_context *", live.context.address)
    out = ffi.new("relay_cache **")
    yield "relay_cache_open(null context)", lambda: lib.relay_cache_open(NULL, 1, NULL, out)
    yield "relay_cache_open(null out)", lambda: lib.relay_cache_open(address, 1, NULL, NULL)
    yield "relay_memory_read(null context)", lambda: lib.relay_memory_read(NULL, ffi.new("relay_memory *"))
    yield "relay_memory_read(null out)", lambda: lib.relay_memory_read(address, NULL)
    for n_threads in (0, -1, 513, INT_MAX):
        yield f"relay_cache_open({n_threads} threads)", lambda n_threads=n_threads: lib.relay_cache_open(address, n_threads, NULL, out)
    yield "relay_cache_open(cache in use)", lambda: lib.relay_cache_open(address, 1, NULL, out)
    stop = lib.relay_stop_new()
    lib.relay_stop_free(stop)
    yield "relay_cache_open(closed stop)", lambda: lib.relay_cache_open(address, 1, stop, out)
    cache = live.cache.pointer
    yield "relay_cache_describe(null out)", lambda: lib.relay_cache_describe(cache, NULL)
    layer = ffi.new("relay_layer_info *")
    yield "relay_cache_describe_layer(null out)", lambda: lib.relay_cache_describe_layer(cache, 0, NULL)
    for il in (-1, live.n_layer, INT_MAX, INT_MIN):
        yield f"relay_cache_describe_layer({il})", lambda il=il: lib.relay_cache_describe_layer(cache, il, layer)


def row_calls(live: LiveModel) -> Iterator[BadCall]:
    cache, data = live.cache.pointer, buffer(live, N)
    yield "relay_cache_length(null out)", lambda: lib.relay_cache_length(cache, NULL)
    for p0 in (-1, N + 1, INT_MAX, INT_MIN):
        yield f"relay_cache_truncate({p0})", lambda p0=p0: lib.relay_cache_truncate(cache, p0)
    yield "relay_cache_append(null segments)", lambda: lib.relay_cache_append(cache, NULL, 1)
    for n in (0, -1, INT_MIN):
        yield f"relay_cache_append({n} segments)", lambda n=n: lib.relay_cache_append(cache, segment(n=1), n)
    bad_segments: list[dict[str, Any]] = [
        {"n": 0}, {"n": -1}, {"n": INT_MIN}, {"n": INT_MAX}, {"n": live.cache.info.n_slots - N + 1},
        {"data": data, "n_tokens": 0, "n": 1}, {"data": data, "n_tokens": -1, "n": 1}, {"data": data, "n_tokens": N, "first": -1, "n": 1},
        {"data": data, "n_tokens": N, "first": N, "n": 1}, {"data": data, "n_tokens": N, "first": 1, "n": N},
        {"data": data, "n_tokens": N, "first": INT_MAX, "n": 1}, {"data": data, "n_tokens": N, "first": INT_MIN, "n": INT_MAX},
    ]  # fmt: skip
    for fields in bad_segments:
        shown = {name: value for name, value in fields.items() if name != "data"}
        shown_data = f"{shown}{', data' if 'data' in fields else ''}"
        yield f"relay_cache_append({shown_data})", lambda f=fields: lib.relay_cache_append(cache, segment(**f), 1)
        yield f"relay_cache_write({shown_data})", lambda f=fields: lib.relay_cache_write(cache, 1, segment(**f), 1, 0, 1)
    yield "relay_cache_write(null segments)", lambda: lib.relay_cache_write(cache, 0, NULL, 1, 0, 1)
    for n in (0, -1, INT_MIN):
        yield f"relay_cache_write({n} segments)", lambda n=n: lib.relay_cache_write(cache, 0, segment(n=1), n, 0, 1)
    row = segment(data=data, n_tokens=N, n=1)
    for p0 in (-1, N, INT_MAX, INT_MIN):
        yield f"relay_cache_write(at {p0})", lambda p0=p0: lib.relay_cache_write(cache, p0, row, 1, 0, 1)
    for first, end in ((-1, 1), (1, 0), (0, live.n_layer + 1), (INT_MIN, INT_MAX)):
        yield f"relay_cache_write(layers {first} to {end})", lambda a=first, b=end: lib.relay_cache_write(cache, 0, row, 1, a, b)
    many = ffi.new("relay_segment[]", [{"n": INT_MAX}] * 8)
    yield "relay_cache_append(more tokens than a number holds)", lambda: lib.relay_cache_append(cache, many, 8)
    yield "relay_cache_write(more tokens than a number holds)", lambda: lib.relay_cache_write(cache, 0, many, 8, 0, 1)
    for p0, p1, n_out in ((-1, 1, 2), (0, N + 1, N + 1), (5, 4, 0), (INT_MIN, INT_MAX, 0), (0, 5, 4), (0, 5, 6), (0, 0, 1)):
        size = n_out * live.layout.token_bytes
        yield f"relay_cache_read({p0}, {p1}, {n_out} rows)", lambda a=p0, b=p1, size=size: lib.relay_cache_read(cache, a, b, data, size, 0)
    yield "relay_cache_read(null out)", lambda: lib.relay_cache_read(cache, 0, 1, NULL, live.layout.token_bytes, 0)
    for p0, p1 in ((-1, 1), (0, N + 1), (5, 4), (INT_MIN, INT_MAX)):
        yield f"relay_cache_rotate({p0}, {p1})", lambda a=p0, b=p1: lib.relay_cache_rotate(cache, a, b, 1)
    for last in (-1, N - 1, live.cache.info.n_slots, INT_MAX, INT_MIN):
        yield f"relay_cache_mark({last})", lambda last=last: lib.relay_cache_mark(cache, last)
    for last in (-1, live.cache.info.n_slots, INT_MAX, INT_MIN):
        yield f"relay_cache_check({last})", lambda last=last: lib.relay_cache_check(cache, last)


def slice_calls(live: LiveModel) -> Iterator[BadCall]:
    n_layer, info = live.n_layer, live.cache.info
    tokens, positions = ffi.new("int32_t[]", [30, 31, 32, 33]), ffi.new("int32_t[]", [0, 1, 2, 3])
    wide = ffi.new("float[]", 4 * max(info.n_embd, info.n_vocab))
    good = {"first": 0, "end": 1, "n_tokens": 4, "tokens": tokens, "positions": positions, "write_end": 1}
    bad: list[dict[str, Any]] = [
        {"first": -1}, {"end": -1}, {"first": 2, "end": 1}, {"end": n_layer + 1}, {"end": INT_MAX}, {"first": INT_MIN},
        {"n_tokens": 0}, {"n_tokens": -1}, {"n_tokens": info.n_batch + 1}, {"n_tokens": INT_MAX},
        {"tokens": NULL}, {"positions": NULL}, {"first": 1, "end": 2, "write_end": 2},
        {"tokens": ffi.new("int32_t[]", [30, -1, 30, 30])}, {"tokens": ffi.new("int32_t[]", [30, info.n_vocab, 30, 30])},
        {"positions": ffi.new("int32_t[]", [-1, 0, 1, 2])}, {"positions": ffi.new("int32_t[]", [0, 1, 2, N])},
        {"positions": ffi.new("int32_t[]", [0, 1, 1, 2])}, {"positions": ffi.new("int32_t[]", [3, 2, 1, 0])},
        {"write_end": -1}, {"write_end": 3}, {"write_end": INT_MAX}, {"end": n_layer, "write_end": n_layer + 1}, {"write_end": 0},
        {"mass": wide, "n_probe": 0}, {"mass": wide, "n_probe": -1}, {"mass": wide, "n_probe": 5}, {"mass": wide, "n_probe": INT_MAX},
        {"logits": wide}, {"end": n_layer, "write_end": n_layer, "hidden_out": wide}, {"end": n_layer, "write_end": n_layer, "v_out": wide},
        {"end": n_layer, "write_end": n_layer, "attn_out": wide}, {"end": n_layer, "write_end": n_layer, "mass": wide, "n_probe": 1},
        {"end": 0, "hidden_out": wide}, {"first": n_layer, "end": n_layer, "write_end": n_layer, "hidden": wide, "logits": wide},
    ]  # fmt: skip
    cache = live.cache.pointer
    yield "relay_cache_run_slice(null slice)", lambda: lib.relay_cache_run_slice(cache, NULL)
    for change in bad:
        arguments = ffi.new("relay_slice *", {**good, **change})
        shown = {name: "…" if isinstance(value, ffi.CData) and value != NULL else str(value) for name, value in change.items()}
        yield f"relay_cache_run_slice({shown})", lambda arguments=arguments: lib.relay_cache_run_slice(cache, arguments)


def capture_calls() -> Iterator[BadCall]:
    capture = lib.relay_capture_new(8)
    name = ffi.new("char[]", b"l_out-0")
    names, widths = ffi.new("char *[]", [name]), ffi.new("int32_t[]", [4])
    assert lib.relay_capture_watch(capture, 1, names, widths) == 0
    yield "relay_capture_watch(-1)", lambda: lib.relay_capture_watch(capture, -1, names, widths)
    yield "relay_capture_watch(null names)", lambda: lib.relay_capture_watch(capture, 1, NULL, widths)
    yield "relay_capture_watch(null widths)", lambda: lib.relay_capture_watch(capture, 1, names, NULL)
    yield "relay_capture_watch(null name)", lambda: lib.relay_capture_watch(capture, 1, ffi.new("char *[]", [NULL]), widths)
    nothing = ffi.new("char[]", b"")
    nameless = ffi.new("char *[]", [nothing])
    yield "relay_capture_watch(empty name)", lambda: lib.relay_capture_watch(capture, 1, nameless, widths)
    for width in (0, -1, INT_MIN):
        yield f"relay_capture_watch(width {width})", lambda w=width: lib.relay_capture_watch(capture, 1, names, ffi.new("int32_t[]", [w]))
    for position in (-1, 9, INT_MAX, INT_MIN):
        yield f"relay_capture_seek({position})", lambda p=position: lib.relay_capture_seek(capture, p)
    vectors = ffi.new("uint16_t[]", 64)
    for i, p0, p1, n in (
        (-1, 0, 1, 4),
        (1, 0, 1, 4),
        (0, -1, 1, 8),
        (0, 0, 9, 36),
        (0, 2, 1, 0),
        (0, 0, 2, 7),
        (0, 0, 2, 9),
        (INT_MAX, 0, 1, 4),
    ):
        yield f"relay_capture_read({i}, {p0}, {p1}, {n})", lambda a=(i, p0, p1), n=n: lib.relay_capture_read(capture, *a, vectors, n)
        yield f"relay_capture_write({i}, {p0}, {p1}, {n})", lambda a=(i, p0, p1), n=n: lib.relay_capture_write(capture, *a, vectors, n)
    yield "relay_capture_read(null)", lambda: lib.relay_capture_read(capture, 0, 0, 1, NULL, 4)
    yield "relay_capture_write(null)", lambda: lib.relay_capture_write(capture, 0, 0, 1, NULL, 4)


def handle_calls(cache: Any, capture: Any, kind: str) -> Iterator[BadCall]:
    """Every entry that takes a handle, with good arguments beside it."""
    info, layer, n = ffi.new("relay_cache_info *"), ffi.new("relay_layer_info *"), ffi.new("int32_t *")
    some, floats = ffi.new("uint8_t[]", 8), ffi.new("uint16_t[]", 8)
    number = ffi.new("int32_t[]", [0])
    slice_ = ffi.new("relay_slice *", {"end": 1, "n_tokens": 1, "tokens": number, "positions": number, "write_end": 1})
    yield f"relay_cache_describe({kind})", lambda: lib.relay_cache_describe(cache, info)
    yield f"relay_cache_describe_layer({kind})", lambda: lib.relay_cache_describe_layer(cache, 0, layer)
    yield f"relay_cache_length({kind})", lambda: lib.relay_cache_length(cache, n)
    yield f"relay_cache_truncate({kind})", lambda: lib.relay_cache_truncate(cache, 0)
    yield f"relay_cache_append({kind})", lambda: lib.relay_cache_append(cache, segment(n=1), 1)
    yield f"relay_cache_write({kind})", lambda: lib.relay_cache_write(cache, 0, segment(n=1), 1, 0, 1)
    yield f"relay_cache_read({kind})", lambda: lib.relay_cache_read(cache, 0, 0, some, 0, 0)
    yield f"relay_cache_rotate({kind})", lambda: lib.relay_cache_rotate(cache, 0, 0, 1)
    yield f"relay_cache_mark({kind})", lambda: lib.relay_cache_mark(cache, 0)
    yield f"relay_cache_check({kind})", lambda: lib.relay_cache_check(cache, 0)
    yield f"relay_cache_run_slice({kind})", lambda: lib.relay_cache_run_slice(cache, slice_)
    yield f"relay_capture_watch({kind})", lambda: lib.relay_capture_watch(capture, 0, NULL, NULL)
    yield f"relay_capture_seek({kind})", lambda: lib.relay_capture_seek(capture, 0)
    yield f"relay_capture_read({kind})", lambda: lib.relay_capture_read(capture, 0, 0, 0, floats, 0)
    yield f"relay_capture_write({kind})", lambda: lib.relay_capture_write(capture, 0, 0, 0, floats, 0)


def calls_without_code(cache: Any, capture: Any, stop: Any) -> None:
    """Entries that have no code to give: they do nothing, or say it in their text."""
    for _ in range(2):
        lib.relay_cache_close(cache)
        lib.relay_capture_free(capture)
        lib.relay_stop_free(stop)
    lib.relay_stop_set(stop, 1)
    assert lib.relay_stop_get(stop) == 0
    assert ffi.string(lib.relay_cache_refusal(cache)) == (b"cache is closed" if cache else b"cache is null")
    assert not lib.relay_stop_callback(NULL)
    assert lib.relay_capture_callback(NULL, False, NULL) and not lib.relay_capture_callback(NULL, True, NULL)
    for n_positions in (-1, INT_MIN):
        assert lib.relay_capture_new(n_positions) == NULL and ffi.string(lib.relay_error_text())
    lib.relay_extra_buffers_work()
    lib.relay_built_commit()
    lib.relay_built_tensor_overhead()


def report(calls: Iterator[BadCall]) -> None:
    for name, call in calls:
        code = call()
        print(json.dumps([name, code, ffi.string(lib.relay_error_text()).decode()]), flush=True)


def main(path: Path) -> None:
    with opened(path) as live:
        rows = live.random_rows(N)
        live.append([Part(N, rows)])
        report(context_calls(live))
        report(row_calls(live))
        report(slice_calls(live))
        assert np.array_equal(live.live_rows().data, rows.data), "a refused call changed the rows"
        report(capture_calls())
        report(handle_calls(NULL, NULL, "null"))
        calls_without_code(NULL, NULL, NULL)
        live.cache.truncate(0)
        out = ffi.new("relay_cache **")
        assert lib.relay_cache_open(ffi.cast("struct llama_context *", live.context.address), 1, NULL, out) == 0
        capture, stop = lib.relay_capture_new(1), lib.relay_stop_new()
        calls_without_code(out[0], capture, stop)
        report(handle_calls(out[0], capture, "closed"))
        print(json.dumps(["end", 0, ""]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
