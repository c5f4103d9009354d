"""`Model`: the weights and metadata of a GGUF file. `Sketch`: the same file without its weights."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import llama_cpp as lc

from relaylite.engine.llama import log
from relaylite.engine.llama.vocab import Vocab
from relaylite.errors import ModelError


class Model:
    """The weights and metadata of one GGUF file."""

    def __init__(
        self,
        path: Path,
        *,
        n_gpu_layers: int,
        use_extra_buffers: bool,
        devices: Sequence[int] = (),
        go_on: Callable[[float], bool] = lambda fraction: True,
    ) -> None:
        """`devices`: addresses of those that layers may go to; all that llama.cpp knows by default.

        `go_on(fraction)` is called in this thread; llama.cpp gives up when it is False. It must not raise: ctypes would drop that.
        """
        params = lc.llama_model_default_params()
        params.n_gpu_layers = n_gpu_layers
        self._devices = (ctypes.c_void_p * (len(devices) + 1))(*devices)  # the last stays null and ends them
        self.devices = ctypes.addressof(self._devices) if devices else None
        params.devices, params.use_extra_bufts = self.devices, use_extra_buffers
        self._progress = lc.llama_progress_callback(lambda fraction, _: go_on(fraction))
        params.progress_callback = self._progress
        log.clear_errors()
        self.pointer = lc.llama_model_load_from_file(os.fsencode(path), params)
        if not self.pointer:
            raise ModelError(f"llama.cpp cannot load {path} ({path.stat().st_size / 1e6:,.0f} MB): {log.first_error()}")
        self.path = path
        self.adapters: list[tuple[Any, float]] = []
        self._adapter_bytes = 0
        self.vocab = Vocab(lc.llama_model_get_vocab(self.pointer), is_spaced=self.meta("tokenizer.ggml.model") == "llama")

    def apply(self, adapter: Path, scale: float) -> None:
        """Add a LoRA file, which `gguf.adapters` has checked, to every context that is made from now on. It is freed with the model."""
        log.clear_errors()
        pointer = lc.llama_adapter_lora_init(self.pointer, os.fsencode(adapter))
        if not pointer:
            raise ModelError(f"llama.cpp cannot load the adapter {adapter}: {log.first_error()}")
        self.adapters.append((pointer, scale))
        self._adapter_bytes += adapter.stat().st_size

    def meta(self, key: str) -> str | None:
        size = 1 << 10
        while True:
            buffer = ctypes.create_string_buffer(size)
            n = lc.llama_model_meta_val_str(self.pointer, key.encode(), buffer, size)
            if n < 0:
                return None
            if n < size:
                return buffer.value.decode("utf-8", "replace")
            size = n + 1

    def arch_meta(self, key: str) -> str | None:
        """A value whose key begins with the architecture's name."""
        return self.meta(f"{self.meta('general.architecture')}.{key}")

    @property
    def chat_template(self) -> str | None:
        text = lc.llama_model_chat_template(self.pointer, None)
        return text.decode("utf-8", "replace") if text else None

    @property
    def quantization(self) -> str:
        """The type of most weights, such as Q4_K - Medium."""
        name: bytes = lc.llama_ftype_name(lc.llama_model_ftype(self.pointer)) or b""
        return name.decode("utf-8", "replace")

    n_layer = property(lambda self: int(lc.llama_model_n_layer(self.pointer)))
    n_embd = property(lambda self: int(lc.llama_model_n_embd(self.pointer)))
    n_head = property(lambda self: int(lc.llama_model_n_head(self.pointer)))
    n_head_kv = property(lambda self: int(lc.llama_model_n_head_kv(self.pointer)))
    n_ctx_train = property(lambda self: int(lc.llama_model_n_ctx_train(self.pointer)))
    n_params = property(lambda self: int(lc.llama_model_n_params(self.pointer)))
    n_bytes = property(lambda self: int(lc.llama_model_size(self.pointer)) + self._adapter_bytes)
    n_window = property(lambda self: int(lc.llama_model_n_swa(self.pointer)))
    has_encoder = property(lambda self: bool(lc.llama_model_has_encoder(self.pointer)))

    @property
    def is_recurrent(self) -> bool:
        """Whether a layer keeps a state, which cannot be cut, instead of rows."""
        return bool(lc.llama_model_is_recurrent(self.pointer) or lc.llama_model_is_hybrid(self.pointer))

    def close(self) -> None:
        if self.pointer:
            self.vocab.close()
            lc.llama_model_free(self.pointer)
            self.pointer = None


class Sketch:
    """A model file without its weights and words. It computes nothing, but can be asked what a context of it would take
    (`native.memory_of`). It costs as much as reading the file's header, and hardly any memory."""

    adapters: Sequence[tuple[Any, float]] = ()

    def __init__(self, model: Model, *, n_gpu_layers: int) -> None:
        params = lc.llama_model_default_params()
        params.n_gpu_layers, params.use_extra_bufts = n_gpu_layers, False
        params.devices, params.no_alloc, params.load_mode = model.devices, True, lc.LLAMA_LOAD_MODE_NONE
        overrides: Any = (lc.llama_model_kv_override * 3)()  # the last stays empty and ends them
        overrides[0].tag, overrides[0].key = lc.LLAMA_KV_OVERRIDE_TYPE_STR, b"tokenizer.ggml.model"
        overrides[0].value.val_str = b"none"
        overrides[1].tag, overrides[1].key = lc.LLAMA_KV_OVERRIDE_TYPE_INT, f"{model.meta('general.architecture')}.vocab_size".encode()
        overrides[1].value.val_i64 = model.vocab.n_tokens
        params.kv_overrides = ctypes.cast(overrides, type(params.kv_overrides))
        log.clear_errors()
        log.hush(id(self))  # llama.cpp said the same of the model itself
        self.pointer = lc.llama_model_load_from_file(os.fsencode(model.path), params)
        if not self.pointer:
            self.close()
            model.path.stat()  # raises what is wrong if the file is gone
            raise ModelError(f"llama.cpp cannot read {model.path} again: {log.first_error()}")

    def close(self) -> None:
        if self.pointer:
            lc.llama_model_free(self.pointer)
            self.pointer = None
        log.unhush(id(self))
