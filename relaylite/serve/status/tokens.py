"""`/tokenize`, `/detokenize` and `/apply-template`: what the model reads."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from relaylite.serve.body import read_body
from relaylite.serve.reading.messages import read_messages
from relaylite.serve.service import service_of


async def tokenize(request: Request) -> Response:
    model = service_of(request).completions
    body = await read_body(request)
    parses_special = body.raw("parse_special") is None or body.flag("parse_special")
    with_pieces, text = body.flag("with_pieces"), body.text("content") or ""
    tokens = await to_thread.run_sync(lambda: model.tokenize(text, parse_special=parses_special))
    return JSONResponse({"tokens": [{"id": id, "piece": _piece(model.piece(id))} for id in tokens] if with_pieces else tokens})


async def detokenize(request: Request) -> Response:
    model = service_of(request).completions
    body = await read_body(request)
    tokens, n_vocab = body.list("tokens"), model.info.n_vocab or 2**31
    if not all(isinstance(token, int) and not isinstance(token, bool) and 0 <= token < n_vocab for token in tokens):
        raise body.refuse("tokens", "must be a list of token ids of this model")
    return JSONResponse({"content": b"".join(map(model.piece, tokens)).decode(errors="replace")})


async def apply_template(request: Request) -> Response:
    model = service_of(request).completions
    messages = read_messages(await read_body(request))
    prompt, _ = await to_thread.run_sync(model.render, messages)
    return JSONResponse({"prompt": prompt})


def _piece(data: bytes) -> Any:
    """Text, or a list of bytes where they are no whole characters, as llama-server gives them."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)
