"""`Sampler`: llama.cpp's chain of samplers for one answer."""

from __future__ import annotations

import ctypes
from typing import Any

import llama_cpp as lc
import numpy as np
import numpy.typing as npt

from relaylite.engine.llama.context import Context
from relaylite.sampling import Sampling


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
