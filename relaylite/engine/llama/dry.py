"""`DrySamplers`: llama.cpp's DRY samplers for one vocabulary, made at the price of a copy."""

from __future__ import annotations

import ctypes
from typing import Any

import llama_cpp as lc

from relaylite.engine.llama.pointer import still_open

BREAKERS = ("\n", ":", '"', "*")  # llama.cpp's default
N_KEPT = 8


class DrySamplers:
    """To make a DRY sampler llama.cpp looks through the whole vocabulary for each sequence breaker. So one of each kind that was asked for
    is kept, unused, and copied; the last `N_KEPT` kinds are. Used by one thread at a time."""

    def __init__(self, vocab: Any) -> None:
        self._vocab = vocab
        self._kept: dict[tuple[float, float, int, int], Any] = {}

    def sampler(self, multiplier: float, base: float, allowed_length: int, last_n: int) -> Any:
        """A sampler that belongs to the caller."""
        kind = (multiplier, base, allowed_length, last_n)
        if kind not in self._kept:
            if len(self._kept) == N_KEPT:
                lc.llama_sampler_free(self._kept.pop(next(iter(self._kept))))
            breakers = (ctypes.c_char_p * len(BREAKERS))(*(text.encode() for text in BREAKERS))
            self._kept[kind] = lc.llama_sampler_init_dry(still_open(self._vocab), *kind, breakers, len(BREAKERS))
        return lc.llama_sampler_clone(self._kept[kind])

    def close(self) -> None:
        for sampler in self._kept.values():
            lc.llama_sampler_free(sampler)
        self._vocab, self._kept = None, {}
