"""A GGUF file with a header, a vocabulary of names and two small tensors: enough to be judged, not to be run."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

from relaylite.gguf.header import MAX_KEPT


def write_model(path: Path, *, block_count: int = 2, type: str | None = None, architecture: str = "llama") -> Path:
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(block_count)
    writer.add_context_length(128)
    if type is not None:
        writer.add_type(type)
    writer.add_token_list([f"token {i}" for i in range(MAX_KEPT + 1)])
    writer.add_head_count_kv([1, 2])
    writer.add_tensor("token_embd.weight", np.zeros((3, 64), np.float32))
    writer.add_tensor("output.weight", np.zeros((5, 64), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
