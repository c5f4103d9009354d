"""What the installed llama.cpp can run on: its devices and the processor features it was built to use. Opens no model."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import llama_cpp

_KINDS = ("CPU", "GPU", "integrated GPU", "accelerator", "meta")


@dataclass(frozen=True, slots=True)
class Device:
    """`kind` is one of CPU, GPU, integrated GPU, accelerator, meta; memory in bytes, 0 where the backend does not say."""

    name: str
    description: str
    kind: str
    free_bytes: int
    total_bytes: int

    @property
    def is_gpu(self) -> bool:
        return self.kind in ("GPU", "integrated GPU")


def list_devices() -> list[Device]:
    """Devices of all backends that this llama.cpp was built with."""
    llama_cpp.llama_backend_init()
    ggml = llama_cpp.llama_cpp._lib
    ggml.ggml_backend_dev_get.restype = ctypes.c_void_p
    ggml.ggml_backend_dev_count.restype = ctypes.c_size_t
    return [_describe(ctypes.c_void_p(ggml.ggml_backend_dev_get(ctypes.c_size_t(i)))) for i in range(ggml.ggml_backend_dev_count())]


def _describe(device: ctypes.c_void_p) -> Device:
    ggml = llama_cpp.llama_cpp._lib
    for name in ("ggml_backend_dev_name", "ggml_backend_dev_description"):
        getattr(ggml, name).restype = ctypes.c_char_p
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    ggml.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
    return Device(
        name=ggml.ggml_backend_dev_name(device).decode("utf-8", "replace"),
        description=ggml.ggml_backend_dev_description(device).decode("utf-8", "replace"),
        kind=_KINDS[ggml.ggml_backend_dev_type(device)],
        free_bytes=free.value,
        total_bytes=total.value,
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


def can_offload() -> bool:
    """Whether this build can put layers on a GPU."""
    return bool(llama_cpp.llama_supports_gpu_offload())
