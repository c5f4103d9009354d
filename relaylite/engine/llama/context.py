"""`Context`: a llama_context, which computes tokens and holds their rows."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import llama_cpp as lc
import numpy as np
import numpy.typing as npt

from relaylite.engine.llama import log
from relaylite.engine.llama.model import Model, Sketch
from relaylite.engine.llama.pointer import still_open
from relaylite.errors import ModelError, NativeError
from relaylite.reuse.kv_types import KV_TYPES
from relaylite.reuse.rows import Tokens


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """Settings of a context. A callback is a pair of addresses (function, data) of native code; (0, 0) is none."""

    n_ctx: int
    n_batch: int
    n_threads: int
    type_k: str = "f16"
    type_v: str = "f16"
    eval_callback: tuple[int, int] = (0, 0)
    abort_callback: tuple[int, int] = (0, 0)


class Context:
    """A llama_context with one live sequence (0) and a scratch sequence (1) that the native extension uses."""

    def __init__(self, model: Model | Sketch, options: ContextOptions) -> None:
        params = lc.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = options.n_ctx, options.n_batch, options.n_batch
        params.n_seq_max, params.kv_unified, params.swa_full = 2, True, True
        params.n_threads = params.n_threads_batch = options.n_threads
        params.flash_attn_type = lc.LLAMA_FLASH_ATTN_TYPE_ENABLED
        params.type_k, params.type_v = KV_TYPES[options.type_k], KV_TYPES[options.type_v]
        params.no_perf = True
        if options.eval_callback[0]:
            params.cb_eval = ctypes.cast(options.eval_callback[0], type(params.cb_eval))
            params.cb_eval_user_data = options.eval_callback[1]
        if options.abort_callback[0]:
            params.abort_callback = ctypes.cast(options.abort_callback[0], type(params.abort_callback))
            params.abort_callback_data = options.abort_callback[1]
        log.clear_errors()
        self._address = lc.llama_init_from_model(model.pointer, params)
        if not self._address:
            raise ModelError(f"llama.cpp cannot make a context of {options.n_ctx} tokens: {log.first_error()}")
        if model.adapters:
            pointers, scales = zip(*model.adapters, strict=True)
            n = len(pointers)
            lc.llama_set_adapters_lora(self._address, (lc.llama_adapter_lora_p_ctypes * n)(*pointers), n, (ctypes.c_float * n)(*scales))
        self._memory = lc.llama_get_memory(self.pointer)
        self.n_ctx = int(lc.llama_n_ctx(self.pointer))
        self.n_batch = int(lc.llama_n_batch(self.pointer))  # never more than the context that was asked for
        self._n_vocab = int(lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(model.pointer)))
        self._batch = lc.llama_batch_init(self.n_batch, 0, 1)

    @property
    def is_open(self) -> bool:
        return self._address is not None

    @property
    def pointer(self) -> Any:
        return still_open(self._address)

    @property
    def memory(self) -> Any:
        return still_open(self._memory)

    @property
    def address(self) -> int:
        return int(ctypes.cast(self.pointer, ctypes.c_void_p).value or 0)

    def decode(self, tokens: Sequence[int] | Tokens, position: int, *, all_logits: bool = False) -> int:
        """Compute 1 to n_batch tokens from `position` on, with logits of the last one or of all. Raises ValueError for another number,
        NativeError for an id that the vocabulary lacks.

        Returns llama_decode's code: 0 is success, 2 is aborted.
        """
        pointer, batch = self.pointer, self._batch
        n = len(tokens)
        if not 0 < n <= self.n_batch:
            raise ValueError(f"{n} tokens in a batch of {self.n_batch}")
        if (strange := next((token for token in tokens if not 0 <= token < self._n_vocab), None)) is not None:  # ctypes would wrap it
            raise NativeError(f"there is no token {strange!r:.30}; the vocabulary has {self._n_vocab}")
        batch.n_tokens = n
        for j, token in enumerate(tokens):
            batch.token[j] = token
            batch.pos[j] = position + j
            batch.n_seq_id[j] = 1
            batch.seq_id[j][0] = 0
            batch.logits[j] = all_logits or j == n - 1
        return int(lc.llama_decode(pointer, batch))

    def logits(self) -> npt.NDArray[np.float32]:
        """float32 `[n_vocab]` of the last token decoded, a copy."""
        return self.logits_in_place().copy()

    def logits_in_place(self) -> npt.NDArray[np.float32]:
        """The same as llama.cpp holds them: to be read only, and only until the next batch."""
        return self._seen(lc.llama_get_logits_ith(self.pointer, -1), (self._n_vocab,))

    def all_logits(self, n: int) -> npt.NDArray[np.float32]:
        """float32 `[n, n_vocab]` of the last batch of `n` tokens, decoded with `all_logits`; a copy."""
        return self._seen(lc.llama_get_logits(self.pointer), (n, self._n_vocab)).copy()

    @staticmethod
    def _seen(logits: Any, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        if not logits:
            raise NativeError(f"llama.cpp has no logits: {log.last_error()}")
        return np.ctypeslib.as_array(logits, shape=shape)

    def length(self) -> int:
        """Of the live sequence, in tokens."""
        return int(lc.llama_memory_seq_pos_max(self.memory, 0)) + 1

    def clear(self) -> None:
        """Forget both sequences."""
        lc.llama_memory_clear(self.memory, False)

    def truncate(self, position: int) -> bool:
        """Drop the live sequence from `position` on. False if this model's memory cannot do that (recurrent models)."""
        return bool(lc.llama_memory_seq_rm(self.memory, 0, position, -1))

    def first_position(self) -> int:
        """The first position that every layer still holds, -1 if nothing is held."""
        return int(lc.llama_memory_seq_pos_min(self.memory, 0))

    @property
    def state_bytes(self) -> int:
        """Bytes of the live sequence's state."""
        return int(lc.llama_state_seq_get_size(self.pointer, 0))

    def read_state(self) -> npt.NDArray[np.uint8]:
        """The live sequence's state, uint8 `[state_bytes]`."""
        out = np.empty(self.state_bytes, np.uint8)
        n = lc.llama_state_seq_get_data(self.pointer, out.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8)), out.size, 0)
        return out[: int(n)]

    def write_state(self, state: npt.NDArray[np.uint8]) -> bool:
        """Replace the live sequence by what `read_state` gave; False if llama.cpp refuses it."""
        self.clear()
        pointer = state.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        return int(lc.llama_state_seq_set_data(self.pointer, pointer, state.size, 0)) > 0

    def close(self) -> None:
        if self._address:
            lc.llama_batch_free(self._batch)
            lc.llama_free(self._address)
            self._address = self._memory = None
