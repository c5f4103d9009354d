"""Writes docs/architectures.md from what `reach.examine` finds. From the repository's root, in some seconds:

python tests/support/architectures_table.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import llama_cpp  # noqa: E402

from support.reach import CACHE_TYPES, EXPECTED, Finding, error_of_moved_keys, examine  # noqa: E402
from support.tiny_models import write_model  # noqa: E402

DOCUMENT = ROOT / "docs" / "architectures.md"

HEAD = """# Which models relay

Made by `python tests/support/architectures_table.py` with llama.cpp {commit}; every row is a case of `tests/native/test_reach.py`.

relaylite reads llama.cpp's compute graph when a model is opened, finds caches, RoPE and masks in it, and says in one line what is
missing if it cannot relay (`relaylite info MODEL` shows it); it then runs with `prefix`. Names of architectures decide nothing, but for how
Llama 4 cuts its windows and how Llama 4 and Ministral 3 scale queries, which the graph does not show. On every open a self-check compares
slices and moved rows with `llama_decode` on the real weights.

`relaylite info` also foretells what a context takes: llama.cpp plans it on a sketch of the model without weights. KV cache and compute
buffers come out as llama.cpp then takes them, to the byte, for every architecture of the table and F16, Q8_0 and Q4_0 caches
(`tests/engine/test_footprint.py`). Layers with a sliding window keep the rows of all positions (llama.cpp's `swa_full`), since any of them
may be relayed.

The table was tried on tiny random models, beyond their sliding windows (32 tokens), on the CPU. *Slices* are layers recomputed apart,
cut at every layer. *Moved rows* are K rows turned by 50 positions against rows decoded there, root mean square in the worst layer; the
rounding of attention to F16 gives some 10⁻³.
"""


LOSSES = """
## What a quantized cache loses

`python benchmarks/quantized_kv.py --tasks 4 --answer 64 --follow 16` on the default model: 4 handovers of 62 tokens, 68 positions, each
against a full prefill with F16 (KL in nats). Little to lean on, but the order is clear: Q8_0 loses nothing that matters, with or without
llama.cpp's Hadamard rotation, and relaying loses on it what it loses on F16. Q4_0 without the rotation loses more than relaying does, and
a relay cannot be better than the cache that it reads; with the rotation (llama.cpp's default where heads are multiples of 64) it loses a
sixth of that, and the relay then repairs as on F16. `balanced` recomputes .18 of the tokens everywhere.

| K and V | Hadamard rotation | full: KL mean, top-1 | naive | relay |
| --- | --- | --- | --- | --- |
| F16 | – | 0, 1 | .036, .985 | .015, .985 |
| Q8_0 | on | .002, 1 | .037, .971 | .018, .985 |
| Q8_0 | off | .002, 1 | .036, .985 | .017, .985 |
| Q4_0 | on | .027, .985 | .108, .985 | .066, .985 |
| Q4_0 | off | .154, .956 | .202, .926 | .201, .897 |
"""

GOES_ON = {"rows": "rows of the store", "start": "any start of a kept state", "whole": "a whole kept state"}


def relaying_rows(found: dict[str, Finding]) -> list[str]:
    lines = [
        "## Models that relay",
        "",
        "| architecture | such as | what is special | slices against llama_decode | moved rows |",
        "| --- | --- | --- | --- | --- |",
    ]
    for arch, finding in found.items():
        if finding.relays:
            slices = "equal bit for bit" if finding.is_bit_true else "DIFFER"
            lines.append(f"| {arch} | {EXPECTED[arch].stands_for} | {EXPECTED[arch].trait} | {slices} | {finding.turn_error:.1e} |")
    return lines


def refused_rows(found: dict[str, Finding]) -> list[str]:
    lines = [
        "## Models that run with exact prefix reuse only",
        "",
        "A prompt goes on from what was computed before, if it begins with it, and computes the rest (`tests/engine/test_kept_states.py`):",
        "from rows of the store as other models do, also in a later run; or from the live sequence and from states that llama.cpp wrote of",
        "earlier ones, kept in memory within the store's budget and gone when the model closes. Where such a state can be cut, any start",
        "of it serves; where it cannot, all of it or nothing, and a state is kept where a prompt parts from an earlier one, for the next",
        "that begins so. With the same batches the result is llama.cpp's bit for bit.",
        "",
        "| architecture | such as | what is special | goes on from | reason shown |",
        "| --- | --- | --- | --- | --- |",
    ]
    for arch, finding in found.items():
        if not finding.relays:
            expected = EXPECTED[arch]
            lines.append(f"| {arch} | {expected.stands_for} | {expected.trait} | {GOES_ON[expected.kept_states]} | {finding.refusal} |")
    return lines


def cache_rows(folder: Path) -> list[str]:
    lines = [
        "## Types of the KV cache",
        "",
        "Tiny Llama, K and V of the same type. Slices are equal bit for bit with each of them. Quantized K is turned through F32 and",
        "through the Hadamard rotation that llama.cpp gives to quantized caches, then quantized again: a moved row differs from one",
        "decoded at its place by about the rounding of its type.",
        "",
        "| type | moved K rows of layer 0, difference |",
        "| --- | --- |",
    ]
    path = write_model(folder / "llama.gguf", "llama")
    return [*lines, *(f"| {kv_type} | {error_of_moved_keys(path, kv_type):.1e} |" for kv_type in CACHE_TYPES)]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {arch: examine(write_model(folder / f"{arch}.gguf", arch)) for arch in EXPECTED}
        parts = [relaying_rows(found), refused_rows(found), cache_rows(folder)]
    commit = llama_cpp.llama_cpp._lib.ggml_commit
    commit.restype = llama_cpp.ctypes.c_char_p
    head = HEAD.format(commit=f"{commit().decode()} (llama-cpp-python {llama_cpp.__version__})")
    DOCUMENT.write_text("\n".join([head, *("\n".join(part) + "\n" for part in parts)]) + LOSSES, encoding="utf-8")


if __name__ == "__main__":
    main()
