"""What a context will take in memory, known before llama.cpp takes it.

A system may promise more memory than it has, and end the process later. So this is asked first. llama.cpp itself answers, with a sketch
of the model that has no weights: every architecture, KV type and device is counted as it will be. `Engine.memory` says what was taken.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from relaylite.engine import llama, native
from relaylite.engine.interface import Memory
from relaylite.errors import ModelError
from relaylite.gguf.header import part_names
from relaylite.machine.resources import address_space_left, available_bytes

_LOAD_BYTES = 96 * 2**20  # words, and the sketches and graphs that are made before a context; llama.cpp ends the process without
_OWN_BYTES = 128 * 2**20  # rows on their way into the cache, and written-out attention: at most 64 MiB each


def forecast(model: llama.Model, options: llama.ContextOptions, n_gpu_layers: int = 0) -> Memory:
    """What llama.cpp would take for a context with these options. Raises ModelError if it would refuse it."""
    sketch = llama.Sketch(model, n_gpu_layers=n_gpu_layers)
    try:
        context = llama.Context(sketch, replace(options, eval_callback=(0, 0), abort_callback=(0, 0)))
        try:
            taken = native.memory_of(context.address)
        finally:
            context.close()
    finally:
        sketch.close()
    return Memory(model_bytes=taken.weights, kv_bytes=taken.cache, compute_bytes=taken.compute)


def bytes_per_token(model: llama.Model, options: llama.ContextOptions) -> int:
    """Bytes of cache that each further token takes. States of recurrent layers do not grow, so they do not count."""
    small, large = (forecast(model, replace(options, n_ctx=n)).kv_bytes for n in (options.n_ctx, 2 * options.n_ctx))
    return (large - small) // options.n_ctx


def check_load(path: Path) -> None:
    """Raise ModelError if the limit of the address space leaves too little room for the weights and for loading them."""
    weights = sum(part.stat().st_size for name in part_names(path.name) if (part := path.with_name(name)).exists())
    needed, left = weights + _LOAD_BYTES, address_space_left()
    if needed > left:
        raise ModelError(f"loading {path} needs about {_mb(needed)} of address space and {_mb(left)} are left; raise the limit (ulimit -v)")


def check_context(model: llama.Model, options: llama.ContextOptions) -> None:
    """Raise ModelError if this context needs more memory than is free. The weights are loaded already."""
    needs, free = forecast(model, options), available_bytes()
    needed = needs.kv_bytes + needs.compute_bytes + _OWN_BYTES
    if needed > free:
        raise ModelError(
            f"a context of {options.n_ctx} tokens needs about {_mb(needed)} of memory and {_mb(free)} are free; give a smaller --ctx, "
            "or set kv_type to q8_0 (RELAYLITE_KV_TYPE=q8_0)"
        )


def _mb(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.0f} MB"
