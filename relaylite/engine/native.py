"""The only door to the compiled extension: loads it, turns its codes into exceptions and numpy arrays into pointers.

Its small objects are here, its cache is in `cache`. llama_cpp is imported first, because both must share one libllama in the process.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import llama_cpp
import numpy as np
import numpy.typing as npt

from relaylite.errors import Cancelled, NativeError
from relaylite.machine.installation import LLAMA_CPP_PYTHON, install_command

try:
    from relaylite._native import ffi as ffi
    from relaylite._native import lib as lib
except ImportError as error:
    raise NativeError(
        f"relaylite's extension does not load ({error}); install relaylite and llama-cpp-python=={LLAMA_CPP_PYTHON} again"
    ) from error

F32 = npt.NDArray[np.float32]
F16 = npt.NDArray[np.float16]


class Unsupported(NativeError):
    """The model or context cannot do what was asked; the message names what is missing."""


def build() -> str:
    """Names the llama.cpp that is loaded: its version and commit, and the backends and processor features that it was compiled for."""
    return f"{llama_cpp.__version__} {_commit()} {llama_cpp.llama_print_system_info().decode('utf-8', 'replace')}"


def _commit() -> str:
    ggml_commit = llama_cpp.llama_cpp._lib.ggml_commit
    ggml_commit.restype = ctypes.c_char_p
    return str(ggml_commit().decode())


def check_build() -> None:
    """Raise NativeError unless the loaded ggml was made from the sources that the extension was compiled against."""
    overhead = llama_cpp.llama_cpp._lib.ggml_tensor_overhead
    overhead.restype = ctypes.c_size_t
    loaded, built = _source(_commit()), _source(text_of(lib.relay_built_commit()))
    is_same = loaded == built if loaded and built else llama_cpp.__version__ == LLAMA_CPP_PYTHON
    if not is_same:
        found = loaded or f"of llama-cpp-python {llama_cpp.__version__}"
        raise NativeError(
            f"llama.cpp {found} is loaded, relaylite was built against {built or f'that of {LLAMA_CPP_PYTHON}'}: run {install_command()}"
        )
    if overhead() != lib.relay_built_tensor_overhead():  # compiled with other limits
        raise NativeError(
            f"the loaded llama.cpp lays out its tensors otherwise than the one relaylite was built against: run {install_command()}"
        )


def _source(commit: str) -> str:
    """The name of the sources in ggml's build commit, "" if there is none.

    One release is "0c1e570" as a ready-made wheel, "0c1e570-dirty" if pip compiled it (its sources lack files of the repository), and
    "unknown" if it was compiled without git.
    """
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
    raise_for(lib.relay_memory_read(ffi.cast("struct llama_context *", context), out))
    return Taken(int(out.weights), int(out.cache), int(out.compute))


def text_of(pointer: Any) -> str:
    """The text of a `const char *`."""
    return bytes(ffi.string(pointer)).decode("utf-8", "replace")


def raise_for(code: int) -> None:
    """Raise what a code of relay.h means: Cancelled if the stop flag was set, Unsupported, or NativeError; nothing for RELAY_OK."""
    if code == lib.RELAY_OK:
        return
    text = text_of(lib.relay_error_text())
    if code == lib.RELAY_STOPPED:
        raise Cancelled("stopped")
    if code == lib.RELAY_UNSUPPORTED:
        raise Unsupported(text)
    raise NativeError(text)


def pointer_to(array: npt.NDArray[Any] | None, ctype: str) -> Any:
    """A `ctype *` to the array's memory, NULL for None. The array must be contiguous and outlive the call."""
    return ffi.NULL if array is None else ffi.cast(f"{ctype} *", ffi.from_buffer(array))


class Handle:
    """A native object that is freed once. Raises NativeError if it is used after `close`."""

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


class Stop(Handle):
    """A flag that ends llama.cpp's and our computations within one graph node; set from any thread."""

    def __init__(self) -> None:
        super().__init__(lib.relay_stop_new(), lib.relay_stop_free)

    callback = int(ffi.cast("uintptr_t", ffi.addressof(lib, "relay_stop_callback")))

    def set(self, is_set: bool) -> None:
        lib.relay_stop_set(self.pointer, is_set)

    @property
    def is_set(self) -> bool:
        return bool(lib.relay_stop_get(self.pointer))


class Capture(Handle):
    """Hidden states seen while llama.cpp decodes, F16 per position, under the names of graph nodes."""

    def __init__(self, n_positions: int) -> None:
        super().__init__(lib.relay_capture_new(n_positions), lib.relay_capture_free)
        self.widths: dict[str, int] = {}

    callback = int(ffi.cast("uintptr_t", ffi.addressof(lib, "relay_capture_callback")))

    def watch(self, widths: dict[str, int]) -> None:
        """Capture these nodes from now on: name → width. Forgets what was captured."""
        names = [ffi.new("char[]", name.encode()) for name in widths]
        raise_for(
            lib.relay_capture_watch(self.pointer, len(names), ffi.new("char *[]", names), ffi.new("int32_t[]", list(widths.values())))
        )
        self.widths = dict(widths)

    def seek(self, position: int) -> None:
        """The next tokens computed stand at `position` and after; what was captured from there on is forgotten."""
        raise_for(lib.relay_capture_seek(self.pointer, position))

    def read(self, name: str, start: int, end: int) -> F16:
        """float16 `[end − start, width]`, NaN where nothing was captured."""
        out = np.empty((end - start, self.widths[name]), np.float16)
        i = list(self.widths).index(name)
        raise_for(lib.relay_capture_read(self.pointer, i, start, end, pointer_to(out, "uint16_t"), out.size))
        return out

    def write(self, name: str, start: int, vectors: F16) -> None:
        """Set the vectors of positions from `start` on, float16 `[n, width]`."""
        values = np.ascontiguousarray(vectors, np.float16)
        i = list(self.widths).index(name)
        raise_for(lib.relay_capture_write(self.pointer, i, start, start + len(values), pointer_to(values, "uint16_t"), values.size))
