"""`Sampler`: llama.cpp's chain of samplers for one answer."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import llama_cpp as lc
import numpy as np
import numpy.typing as npt

from relaylite.engine.llama.context import Context
from relaylite.engine.llama.vocab import Vocab
from relaylite.errors import UsageError
from relaylite.sampling import MAX_BIAS, Sampling


class Sampler:
    """llama.cpp's sampler chain for one answer, in llama.cpp's usual order.

    `n_ctx`: tokens that prompt and answer can have. Raises UsageError if `sampling` names a token that the vocabulary lacks, or bans all.
    """

    def __init__(self, sampling: Sampling, vocab: Vocab, n_ctx: int) -> None:
        self._n_vocab = vocab.n_tokens
        _check_bias(sampling, self._n_vocab)
        self.pointer = lc.llama_sampler_chain_init(lc.llama_sampler_chain_default_params())
        self._n_heard = 0  # tokens before the answer that a sampler of the chain looks at
        if sampling.logit_bias:
            self._add_bias(sampling)
        if sampling.has_penalties:
            self._add_penalties(sampling, n_ctx)
        if sampling.has_dry:
            n = _window(sampling.dry_penalty_last_n, n_ctx)
            self._n_heard = max(self._n_heard, n)
            self._add(vocab.dry.sampler(sampling.dry_multiplier, sampling.dry_base, sampling.dry_allowed_length, n))
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

    def _add_bias(self, sampling: Sampling) -> None:
        entries = [lc.llama_logit_bias(token, -np.inf if bias == -MAX_BIAS else bias) for token, bias in sampling.logit_bias]
        n = len(entries)
        self._add(lc.llama_sampler_init_logit_bias(self._n_vocab, n, (lc.llama_logit_bias * n)(*entries)))

    def _add_penalties(self, sampling: Sampling, n_ctx: int) -> None:
        n = _window(sampling.penalty_last_n, n_ctx)
        self._n_heard = max(self._n_heard, n)
        penalties = sampling.repeat_penalty, sampling.frequency_penalty, sampling.presence_penalty
        self._add(lc.llama_sampler_init_penalties(self._n_vocab, n, *penalties))

    def hear(self, prompt: Sequence[int]) -> None:
        """Count the end of the prompt, as far as penalties look back."""
        for token in prompt[-self._n_heard :] if self._n_heard else ():
            self.accept(token)

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


def _window(last_n: int, n_ctx: int) -> int:
    return n_ctx if last_n < 0 else min(last_n, n_ctx)


def _check_bias(sampling: Sampling, n_vocab: int) -> None:
    for token, _ in sampling.logit_bias:
        if token >= n_vocab:
            raise UsageError(f"logit_bias names token {token}; this model's tokens are 0 to {n_vocab - 1}")
    if sum(bias == -MAX_BIAS for _, bias in sampling.logit_bias) == n_vocab:
        raise UsageError("logit_bias bans every token of this model")
