"""`EventStream`: an answer as server-sent events, with a comment each second so that no client takes silence for a failure."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Receive, Scope, Send

from relaylite.serve.errors import translated
from relaylite.serve.exchange import Exchange

COMMENT_S = 1
STALLED_S = 60.0  # a client that reads nothing for so long is given up
LINE_END = "\n"
DONE = ServerSentEvent("[DONE]", sep=LINE_END)


def event(document: Mapping[str, Any], name: str | None = None) -> ServerSentEvent:
    data = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return ServerSentEvent(data, event=name, sep=LINE_END)


class EventStream(EventSourceResponse):
    """Sends `events`, which are made of what `exchange` gives. An error on the way becomes the last event, in the shape of `path`."""

    def __init__(self, exchange: Exchange, events: AsyncIterator[ServerSentEvent], path: str) -> None:
        super().__init__(
            _guarded(events, path),
            ping=COMMENT_S,
            sep=LINE_END,
            ping_message_factory=lambda: ServerSentEvent(comment="working", sep=LINE_END),
            send_timeout=STALLED_S,
        )
        self._exchange = exchange

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._exchange.close()


async def _guarded(events: AsyncIterator[ServerSentEvent], path: str) -> AsyncIterator[ServerSentEvent]:
    try:
        async for each in events:
            yield each
    except Exception as error:
        document = translated(error).document_for(path)
        yield event(document, "error" if "type" in document else None)
