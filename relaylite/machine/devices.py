"""What the installed llama.cpp can run on: its devices, and the processor features that it was built to use. Opens no model."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import llama_cpp

_ABORT = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
_before_abort = _ABORT()
_KINDS = ("CPU", "GPU", "integrated GPU", "accelerator", "meta")


@dataclass(frozen=True, slots=True)
class Device:
    """`kind` is one of CPU, GPU, integrated GPU, accelerator, meta; `free_bytes` is 0 where the backend does not say."""

    name: str
    description: str
    kind: str
    free_bytes: int

    @property
    def is_gpu(self) -> bool:
        return self.kind in ("GPU", "integrated GPU")


def list_devices() -> list[Device]:
    """Devices of all backends that this llama.cpp was built with."""
    return [_describe(ctypes.c_void_p(address)) for address in _addresses()]


def _describe(device: ctypes.c_void_p) -> Device:
    ggml = llama_cpp.llama_cpp._lib
    for name in ("ggml_backend_dev_name", "ggml_backend_dev_description"):
        getattr(ggml, name).restype = ctypes.c_char_p
    free, total = ctypes.c_size_t(), ctypes.c_size_t()  # ggml wants a place for both
    ggml.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
    return Device(
        name=ggml.ggml_backend_dev_name(device).decode("utf-8", "replace"),
        description=ggml.ggml_backend_dev_description(device).decode("utf-8", "replace"),
        kind=_KINDS[ggml.ggml_backend_dev_type(device)],
        free_bytes=free.value,
    )


def features() -> list[str]:
    """Features that are switched on, such as `CPU: AVX2`, as llama.cpp prints them."""
    found, backend = [], ""
    for part in llama_cpp.llama_print_system_info().decode("utf-8", "replace").split("|"):
        name, _, value = part.strip().rpartition(" = ")
        if " : " in name:
            backend, _, name = name.partition(" : ")
        if value not in ("", "0"):
            found.append(f"{backend}: {name}" + ("" if value == "1" else f" {value}"))
    return found


def has_rpc() -> bool:
    """Whether this build can use workers and be one."""
    return bool(llama_cpp.llama_supports_rpc())


def of_worker(address: str) -> list[int]:
    """Addresses in memory of the devices that the worker at `host:port` offers. The worker must answer: ggml ends the process otherwise."""
    add_server = _rpc("ggml_backend_rpc_add_server", ctypes.c_void_p, ctypes.c_char_p)
    server = ctypes.c_void_p(add_server(address.encode()))
    ggml = llama_cpp.llama_cpp._lib
    ggml.ggml_backend_reg_dev_count.restype, ggml.ggml_backend_reg_dev_get.restype = ctypes.c_size_t, ctypes.c_void_p
    n = ggml.ggml_backend_reg_dev_count(server) if server else 0
    return [ggml.ggml_backend_reg_dev_get(server, ctypes.c_size_t(i)) for i in range(n)]


def local_gpus() -> list[int]:
    """Addresses in memory of the graphics cards here; integrated ones only if there are no others."""
    kinds = [_KINDS.index("GPU"), _KINDS.index("integrated GPU")]
    return next((found for kind in kinds if (found := _of_kind(kind))), [])


def serve(address: str, n_threads: int) -> None:
    """Be a worker at `host:port` (numbers, IPv4), with the graphics cards here or else the CPU. Returns only if that fails."""
    offered = local_gpus() or _of_kind(_KINDS.index("CPU"))
    array = (ctypes.c_void_p * len(offered))(*offered)
    arguments = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p)
    start_server = _rpc("ggml_backend_rpc_start_server", None, *arguments)
    start_server(address.encode(), None, n_threads, len(offered), array)


def before_abort(act: Callable[[str], None]) -> None:
    """Have ggml call `act(message)`, in the thread that fails, when it is about to end the process. It does so when `act` returns."""
    global _before_abort
    _before_abort = _ABORT(lambda message: act(message.decode("utf-8", "replace")))
    llama_cpp.llama_cpp._lib.ggml_set_abort_callback(_before_abort)


def _addresses() -> list[int]:
    """Of all devices, in memory."""
    llama_cpp.llama_backend_init()
    ggml = llama_cpp.llama_cpp._lib
    ggml.ggml_backend_dev_count.restype, ggml.ggml_backend_dev_get.restype = ctypes.c_size_t, ctypes.c_void_p
    return [ggml.ggml_backend_dev_get(ctypes.c_size_t(i)) for i in range(ggml.ggml_backend_dev_count())]


def _of_kind(kind: int) -> list[int]:
    ggml = llama_cpp.llama_cpp._lib
    return [address for address in _addresses() if ggml.ggml_backend_dev_type(ctypes.c_void_p(address)) == kind]


def _rpc(name: str, result: Any, *arguments: Any) -> Any:
    """A function of the RPC backend, which is a library of its own."""
    ggml = llama_cpp.llama_cpp._lib
    ggml.ggml_backend_reg_by_name.restype = ggml.ggml_backend_reg_get_proc_address.restype = ctypes.c_void_p
    backend = ctypes.c_void_p(ggml.ggml_backend_reg_by_name(b"RPC"))
    return ctypes.CFUNCTYPE(result, *arguments)(ggml.ggml_backend_reg_get_proc_address(backend, name.encode()))
