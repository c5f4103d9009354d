"""Log probabilities as clients want them: OpenAI's chat form, its older form for completions, and llama-server's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any

from relaylite.completion.answer import TokenLogprob

LEAST = -9999.0  # in place of minus infinity, which JSON does not have

Piece = Callable[[int], bytes]


def chat_logprobs(entries: Iterable[TokenLogprob], piece: Piece) -> dict[str, Any]:
    return {"content": [{**_token(e.token, e.logprob, piece), "top_logprobs": _top(e, piece)} for e in entries], "refusal": None}


def native_logprobs(entries: Iterable[TokenLogprob], piece: Piece) -> list[dict[str, Any]]:
    """As llama-server's `completion_probabilities`, with ids."""
    return [
        {
            "id": e.token,
            **_token(e.token, e.logprob, piece),
            "top_logprobs": [{"id": token, **_token(token, logprob, piece)} for token, logprob in e.top],
        }
        for e in entries
    ]


def legacy_logprobs(entries: Iterable[TokenLogprob], piece: Piece, offset: int = 0) -> dict[str, Any]:
    """`offset`: where the first token begins in the text."""
    entries = list(entries)
    tokens = [_text(e.token, piece) for e in entries]
    return {
        "tokens": tokens,
        "token_logprobs": [_finite(e.logprob) for e in entries],
        "top_logprobs": [{_text(token, piece): _finite(logprob) for token, logprob in e.top} for e in entries],
        "text_offset": list(accumulate(map(len, tokens[:-1]), initial=offset))[: len(tokens)],
    }


def _top(entry: TokenLogprob, piece: Piece) -> list[dict[str, Any]]:
    return [_token(token, logprob, piece) for token, logprob in entry.top]


def _token(token: int, logprob: float, piece: Piece) -> dict[str, Any]:
    return {"token": _text(token, piece), "logprob": _finite(logprob), "bytes": list(piece(token))}


def _text(token: int, piece: Piece) -> str:
    return piece(token).decode(errors="replace")


def _finite(logprob: float) -> float:
    return logprob if logprob > LEAST else LEAST
