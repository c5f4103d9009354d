"""Source of the cffi module relaylite._native: the declarations of relay.h, compiled in API mode (python -m cffi.gen_src exec-python)."""

from pathlib import Path

import cffi

ffibuilder = cffi.FFI()
header = Path(__file__).with_name("relay.h").read_text(encoding="utf-8")
ffibuilder.cdef("struct llama_context; struct ggml_tensor;\n" + header)
ffibuilder.set_source(
    "relaylite._native",
    """
    #include <stdbool.h>
    #include <stddef.h>
    #include <stdint.h>
    struct llama_context;
    struct ggml_tensor;
    #include "relay.h"
    """,
)
