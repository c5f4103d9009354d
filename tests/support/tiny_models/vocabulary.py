"""Small vocabularies, BPE and SentencePiece, that can spell every byte and know ChatML's control tokens.

Both learn nothing: their pieces come from one list of merges, which holds on purpose `.` + two newlines in one piece, so
that text joined from parts tokenizes otherwise than its parts do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gguf import TokenType

IM_START = "<|im_start|>"
IM_END = "<|im_end|>"

_MERGES = (
    "Ġ t", "h e", "Ġt he", "i n", "e r", "o n", "a n", "Ġ a", "r e", "Ġ w", "Ġ s", "a t", "o r", "e n", "e s", "Ġ c", "l i", "s t",
    "Ġ o", "Ġo f", "Ġ in", "Ġa n", "Ġan d", "in g", "Ġ f", "Ġf or", "Ġt o", "Ġ b", "Ġ p", "Ġ m", "a l", "i t", "i s", "Ġ is", "o u",
    "Ċ Ċ", ". ĊĊ", "d e", "Ġ d", "Ġ l", "li st", "Ġ n", "e d", "Ġ e", "u n", "c t", "un ct", "i on", "Ġf unct", "Ġfunct ion", "s e",
    "r t", "Ġs o", "Ġso rt", "u s", "us er", "a s", "s y", "st e", "sy ste", "syste m", "as s", "ass i", "assi st", "assist an",
    "assistan t", "1 2", "3 4", "12 34", "Ġ re", "Ġre t", "u r", "Ġret ur", "Ġretur n", "p l", "pl an",
)  # fmt: skip


@dataclass(frozen=True)
class Vocabulary:
    """Tokens in order of their ids, and the metadata (keys below `tokenizer.ggml.`) that describes them."""

    tokens: list[str]
    types: list[TokenType]
    metadata: dict[str, Any]


def make_vocabulary(kind: str) -> Vocabulary:
    return {"bpe": _bpe, "spm": _spm}[kind]()


def _bpe() -> Vocabulary:
    pieces = sorted(_byte_letters().values()) + [merge.replace(" ", "") for merge in _MERGES]
    special = ["<|endoftext|>", IM_START, IM_END]
    tokens = special + pieces
    return Vocabulary(
        tokens=tokens,
        types=[TokenType.CONTROL] * len(special) + [TokenType.NORMAL] * len(pieces),
        metadata={"model": "gpt2", "pre": "qwen2", "merges": list(_MERGES), "bos_token_id": 0, "eos_token_id": 2, "add_bos_token": False},
    )


def _spm() -> Vocabulary:
    special = ["<unk>", "<s>", "</s>", IM_START, IM_END]
    single_bytes = [f"<0x{byte:02X}>" for byte in range(256)]
    words = [merge.replace(" ", "").replace("Ġ", "▁").replace("Ċ", "\n") for merge in _MERGES]
    letters = ["▁", "\n", *map(chr, range(0x21, 0x7F))]
    n = len(words) + len(letters)
    return Vocabulary(
        tokens=special + single_bytes + words + letters,
        types=[TokenType.UNKNOWN, *[TokenType.CONTROL] * 4, *[TokenType.BYTE] * 256, *[TokenType.NORMAL] * n],
        metadata={
            "model": "llama",
            "scores": [0.0] * (len(special) + 256) + [-float(rank) for rank in range(n)],
            "bos_token_id": 1,
            "eos_token_id": 4,
            "unknown_token_id": 0,
            "add_bos_token": True,
        },
    )


def _byte_letters() -> dict[int, str]:
    """GPT-2's letter for every byte: printable ones stand for themselves, the others for letters from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + i) for i, byte in enumerate(hidden)}
