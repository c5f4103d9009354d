"""Tables of docs/architectures.md: what `reach.examine` finds on tiny models of every architecture.

tests/native/test_reach.py checks that the page says what the tests expect.
"""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path

import llama_cpp
from pages import DOCS, page_with, table
from support.reach import CACHE_TYPES, EXPECTED, GOES_ON, Finding, error_of_moved_keys, examine
from support.tiny_models import write_model


def files() -> dict[Path, str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {arch: examine(write_model(folder / f"{arch}.gguf", arch)) for arch in EXPECTED}
        blocks = {"llama.cpp": [version()], "relaying": relaying(found), "refused": refused(found), "caches": caches(folder)}
    page = DOCS / "architectures.md"
    return {page: page_with(page, blocks)}


def version() -> str:
    commit = llama_cpp.llama_cpp._lib.ggml_commit
    commit.restype = ctypes.c_char_p
    return f"Made by `python docs/write architectures` with llama.cpp {commit().decode()} (llama-cpp-python {llama_cpp.__version__})."


def relaying(found: dict[str, Finding]) -> list[str]:
    head = ("architecture", "such as", "what is special", "slices against llama_decode", "moved rows")
    rows = []
    for arch, finding in found.items():
        if finding.relays:
            slices = "equal bit for bit" if finding.is_bit_true else "DIFFER"
            rows.append((arch, EXPECTED[arch].stands_for, EXPECTED[arch].trait, slices, f"{finding.turn_error:.1e}"))
    return table(head, rows)


def refused(found: dict[str, Finding]) -> list[str]:
    head = ("architecture", "such as", "what is special", "goes on from", "reason shown")
    rows = []
    for arch, finding in found.items():
        if not finding.relays:
            expected = EXPECTED[arch]
            rows.append((arch, expected.stands_for, expected.trait, GOES_ON[expected.kept_states], finding.refusal))
    return table(head, rows)


def caches(folder: Path) -> list[str]:
    """Tiny Llama with K and V of each type."""
    path = write_model(folder / "llama.gguf", "llama")
    rows = ((kv_type, f"{error_of_moved_keys(path, kv_type):.1e}") for kv_type in CACHE_TYPES)
    return table(("type", "moved K rows of layer 0, difference"), rows)
