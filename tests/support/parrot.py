"""A tiny llama that says what a test wants: each token is followed by the one that the test put behind it.

Everything in it is real (layers, rows, sampling); its blocks add nothing to the residual stream, and its output matrix holds at every
token the embedding of the token before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from gguf import GGUFReader

from support.tiny_models import write_model


def write_parrot(path: Path, *chains: Sequence[int]) -> Path:
    """In each chain every token is followed by the next; a token that stands nowhere, or last, is followed by anything."""
    write_model(path, "llama", n_layer=2, weights="F32")
    tensors = {tensor.name: tensor.data for tensor in GGUFReader(path, "r+").tensors}
    for name, data in tensors.items():
        if name.endswith(("attn_output.weight", "ffn_down.weight")):
            data[:] = 0
    embedding, output = tensors["token_embd.weight"], tensors["output.weight"]
    output[:] = 0
    seen: dict[int, int] = {}
    for chain in chains:
        for token, following in pairwise(chain):
            assert seen.setdefault(token, following) == following, f"{token} is followed by {seen[token]} already"
    for token, following in seen.items():
        output[following] += embedding[token]
    assert isinstance(output, np.memmap)
    output.flush()
    return path
