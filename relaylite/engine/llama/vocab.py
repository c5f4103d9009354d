"""`Vocab`: token ids and the bytes they stand for."""

from __future__ import annotations

import ctypes
from typing import Any

import llama_cpp as lc

from relaylite.engine.llama.dry import DrySamplers
from relaylite.engine.llama.pointer import still_open
from relaylite.prompt.tokenizer import known_ids

_GUARD = "\x01"


class Vocab:
    """Token ids and their bytes. Fulfils `prompt.tokenizer.Tokenizer`. Raises EngineClosed when the model is closed.

    Any thread may call `piece` and `tokenize`. No id reaches llama.cpp unchecked: it throws for one that it lacks, and that ends the
    process.
    """

    def __init__(self, pointer: Any, *, is_spaced: bool) -> None:
        self._address = pointer
        self.dry = DrySamplers(pointer)
        self.n_tokens = int(lc.llama_vocab_n_tokens(pointer))
        bos = int(lc.llama_vocab_bos(pointer))
        self.bos = bos if bos >= 0 and lc.llama_vocab_get_add_bos(pointer) else None
        self._special_bos, self._special_eos = bos, int(lc.llama_vocab_eos(pointer))
        self._pieces: dict[int, bytes] = {}
        # A SentencePiece vocabulary puts a space before a text. A control character in front, which never merges, gets it and is cut off.
        self._guard = self._raw(_GUARD, False) if is_spaced else []

    @property
    def _pointer(self) -> Any:
        return still_open(self._address)

    @property
    def bos_text(self) -> str:
        return self._text_of(self._special_bos)

    @property
    def eos_text(self) -> str:
        return self._text_of(self._special_eos)

    def _text_of(self, token: int) -> str:
        return lc.llama_vocab_get_text(self._pointer, token).decode("utf-8", "replace") if 0 <= token < self.n_tokens else ""

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
        """Ids of `text`, without BOS, EOS or the space that a tokenizer puts in front. `parse_special`: control tokens are read as such."""
        if not text:
            return []
        if not self._guard:
            return self._raw(text, parse_special)
        guarded = self._raw(_GUARD + text, parse_special)
        n = len(self._guard)
        return guarded[n:] if guarded[:n] == self._guard else self._raw(text, parse_special)

    def piece(self, token: int) -> bytes:
        """Bytes of one token; b"" for control tokens. Raises UsageError for what is no id of this vocabulary."""
        known = self._pieces.get(token)
        if known is None:
            [token] = known_ids([token], self.n_tokens, "a token's text")
            buffer = ctypes.create_string_buffer(64)
            n = lc.llama_token_to_piece(self._pointer, token, buffer, 64, 0, False)
            if n < 0:
                buffer = ctypes.create_string_buffer(-n)
                n = lc.llama_token_to_piece(self._pointer, token, buffer, -n, 0, False)
            known = self._pieces[token] = buffer.raw[:n]
        return known

    def is_eog(self, token: int) -> bool:
        return 0 <= token < self.n_tokens and bool(lc.llama_vocab_is_eog(self._pointer, token))

    def close(self) -> None:
        self.dry.close()
        self._address = None
