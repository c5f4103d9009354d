"""The only door to llama_cpp: model file, vocabulary, context and samplers, as plain Python objects.

Importing it costs 0.2 s; only the engine does.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llama_cpp as lc
import numpy as np
import numpy.typing as npt

from relaylite.engine import llama_log
from relaylite.errors import EngineClosed, ModelError
from relaylite.reuse.kv_types import KV_TYPES
from relaylite.reuse.rows import Tokens
from relaylite.sampling import Sampling

_log_callback = lc.llama_log_callback(lambda level, text, _: llama_log.take(level, text))


def start() -> None:
    """Route native logs and initialise the backends; may be called again."""
    lc.llama_log_set(_log_callback, ctypes.c_void_p(0))
    lc.llama_backend_init()


_GUARD = "\x01"


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
        llama_log.clear_errors()
        self.pointer = lc.llama_model_load_from_file(os.fsencode(path), params)
        if not self.pointer:
            raise ModelError(f"llama.cpp cannot load {path} ({path.stat().st_size / 1e6:,.0f} MB): {llama_log.first_error()}")
        self.path = path
        self.adapters: list[tuple[Any, float]] = []
        self._adapter_bytes = 0
        self.vocab = Vocab(lc.llama_model_get_vocab(self.pointer), is_spaced=self.meta("tokenizer.ggml.model") == "llama")

    def apply(self, adapter: Path, scale: float) -> None:
        """Add a LoRA file, which `adapters` has judged, to what every context made from now on computes. It is freed with the model."""
        llama_log.clear_errors()
        pointer = lc.llama_adapter_lora_init(self.pointer, os.fsencode(adapter))
        if not pointer:
            raise ModelError(f"llama.cpp cannot load the adapter {adapter}: {llama_log.first_error()}")
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
    """A model file without its weights and words: what contexts of it would take can be asked (`native.memory_of`), nothing computed.

    Costs what reading the file's header costs, and no memory to speak of.
    """

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
        llama_log.clear_errors()
        llama_log.hush(id(self))  # what llama.cpp says of a sketch, it says again of the model itself
        self.pointer = lc.llama_model_load_from_file(os.fsencode(model.path), params)
        if not self.pointer:
            self.close()
            model.path.stat()  # raises what is wrong if the file is gone
            raise ModelError(f"llama.cpp cannot read {model.path} again: {llama_log.first_error()}")

    def close(self) -> None:
        if self.pointer:
            lc.llama_model_free(self.pointer)
            self.pointer = None
        llama_log.unhush(id(self))


def _open(pointer: Any) -> Any:
    """llama.cpp ends the process if it is given what was freed."""
    if pointer is None:
        raise EngineClosed("the model is closed; open it again")
    return pointer


class Vocab:
    """Token ids and their bytes, while the model is open. Fulfils `prompt.Tokenizer`."""

    def __init__(self, pointer: Any, *, is_spaced: bool) -> None:
        self._address = pointer
        self.n_tokens = int(lc.llama_vocab_n_tokens(pointer))
        bos = int(lc.llama_vocab_bos(pointer))
        self.bos = bos if bos >= 0 and lc.llama_vocab_get_add_bos(pointer) else None
        self._special_bos, self._special_eos = bos, int(lc.llama_vocab_eos(pointer))
        self._pieces: dict[int, bytes] = {}
        # A SentencePiece vocabulary puts a space before a text; a control character, which never merges, takes its place and is cut off.
        self._guard = self._raw(_GUARD, False) if is_spaced else []

    @property
    def _pointer(self) -> Any:
        return _open(self._address)

    @property
    def bos_text(self) -> str:
        return self._text_of(self._special_bos)

    @property
    def eos_text(self) -> str:
        return self._text_of(self._special_eos)

    def _text_of(self, token: int) -> str:
        return lc.llama_vocab_get_text(self._pointer, token).decode("utf-8", "replace") if token >= 0 else ""

    def _raw(self, text: str, parse_special: bool) -> list[int]:
        data = text.encode("utf-8")
        size = len(data) + 8
        buffer = (lc.llama_token * size)()
        n = lc.llama_tokenize(self._pointer, data, len(data), buffer, size, False, parse_special)
        if n < 0:
            buffer = (lc.llama_token * -n)()
            n = lc.llama_tokenize(self._pointer, data, len(data), buffer, -n, False, parse_special)
        return list(buffer[:n])

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        """Ids of `text`, without BOS or EOS and without a space of the tokenizer's own."""
        if not text:
            return []
        if not self._guard:
            return self._raw(text, parse_special)
        guarded = self._raw(_GUARD + text, parse_special)
        n = len(self._guard)
        return guarded[n:] if guarded[:n] == self._guard else self._raw(text, parse_special)

    def piece(self, token: int) -> bytes:
        """Bytes of one token; b"" for control tokens."""
        known = self._pieces.get(token)
        if known is None:
            buffer = ctypes.create_string_buffer(64)
            n = lc.llama_token_to_piece(self._pointer, token, buffer, 64, 0, False)
            if n < 0:
                buffer = ctypes.create_string_buffer(-n)
                n = lc.llama_token_to_piece(self._pointer, token, buffer, -n, 0, False)
            known = self._pieces[token] = buffer.raw[:n]
        return known

    def is_eog(self, token: int) -> bool:
        return bool(lc.llama_vocab_is_eog(self._pointer, token))

    def close(self) -> None:
        self._address = None


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """Settings of a context; `callbacks` are addresses (function, data) of native callbacks."""

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
        llama_log.clear_errors()
        self._address = lc.llama_init_from_model(model.pointer, params)
        if not self._address:
            raise ModelError(f"llama.cpp cannot make a context of {options.n_ctx} tokens: {llama_log.first_error()}")
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
        return _open(self._address)

    @property
    def memory(self) -> Any:
        return _open(self._memory)

    @property
    def address(self) -> int:
        return int(ctypes.cast(self.pointer, ctypes.c_void_p).value or 0)

    def decode(self, tokens: Sequence[int] | Tokens, position: int, *, all_logits: bool = False) -> int:
        """Compute at most n_batch tokens from `position` on, with logits of the last or of all; llama_decode's code (2: aborted)."""
        pointer, batch = self.pointer, self._batch
        n = len(tokens)
        if not 0 < n <= self.n_batch:
            raise ValueError(f"{n} tokens in a batch of {self.n_batch}")
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
        pointer = lc.llama_get_logits_ith(self.pointer, -1)
        return np.ctypeslib.as_array(pointer, shape=(self._n_vocab,)).copy()

    def all_logits(self, n: int) -> npt.NDArray[np.float32]:
        """float32 `[n, n_vocab]` of the last batch of `n` tokens, decoded with `all_logits`; a copy."""
        return np.ctypeslib.as_array(lc.llama_get_logits(self.pointer), shape=(n, self._n_vocab)).copy()

    def length(self) -> int:
        return int(lc.llama_memory_seq_pos_max(self.memory, 0)) + 1

    def clear(self) -> None:
        lc.llama_memory_clear(self.memory, False)

    def truncate(self, position: int) -> bool:
        """Drop positions from `position` on; False if this model's memory cannot (recurrent models)."""
        return bool(lc.llama_memory_seq_rm(self.memory, 0, position, -1))

    def first_position(self) -> int:
        """The first that every layer still holds, -1 if nothing is held."""
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


class Sampler:
    """llama.cpp's sampler chain for one answer, in llama.cpp's usual order."""

    PENALTY_LAST_N = 64

    def __init__(self, sampling: Sampling, n_vocab: int) -> None:
        self.pointer = lc.llama_sampler_chain_init(lc.llama_sampler_chain_default_params())
        self._n_vocab = n_vocab
        if sampling.repeat_penalty != 1.0:
            self._add(lc.llama_sampler_init_penalties(n_vocab, self.PENALTY_LAST_N, sampling.repeat_penalty, 0.0, 0.0))
        if sampling.is_greedy:
            self._add(lc.llama_sampler_init_greedy())
            return
        if sampling.top_k > 0:
            self._add(lc.llama_sampler_init_top_k(sampling.top_k))
        self._add(lc.llama_sampler_init_top_p(sampling.top_p, 1))
        self._add(lc.llama_sampler_init_min_p(sampling.min_p, 1))
        self._add(lc.llama_sampler_init_temp(sampling.temperature))
        self._add(lc.llama_sampler_init_dist(sampling.seed))

    def _add(self, sampler: Any) -> None:
        lc.llama_sampler_chain_add(self.pointer, sampler)

    def accept(self, token: int) -> None:
        lc.llama_sampler_accept(self.pointer, token)

    def sample(self, context: Context) -> int:
        """The next token from the logits of the context's last batch; accepts it."""
        return int(lc.llama_sampler_sample(self.pointer, context.pointer, -1))

    def sample_from(self, logits: npt.NDArray[np.float32]) -> int:
        """The next token from these logits, float32 `[n_vocab]`; accepts it."""
        data = np.zeros(self._n_vocab, np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)], align=True))
        data["id"], data["logit"] = np.arange(self._n_vocab, dtype=np.int32), logits
        candidates = lc.llama_token_data_array(
            data=data.ctypes.data_as(ctypes.POINTER(lc.llama_token_data)), size=self._n_vocab, selected=-1, sorted=False
        )
        lc.llama_sampler_apply(self.pointer, ctypes.byref(candidates))
        token = int(candidates.data[candidates.selected].id)
        self.accept(token)
        return token

    def close(self) -> None:
        if self.pointer:
            lc.llama_sampler_free(self.pointer)
            self.pointer = None
