"""What every dialect does with its requests: submit them, then answer at once or as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from relaylite.completion.request import CompletionRequest
from relaylite.serve.exchange import Exchange, Outcome
from relaylite.serve.service import service_of
from relaylite.serve.sse import EventStream

Whole = Callable[[list[Outcome]], Any]
Stream = Callable[[Exchange], AsyncIterator[ServerSentEvent]]


async def answered(request: Request, asked: Sequence[CompletionRequest], whole: Whole, stream: Stream | None) -> Response:
    """The document that `whole` makes of all answers; or, with a `stream`, the events that it makes while they are written."""
    service = service_of(request)
    exchange = await Exchange.of(service, asked, service.keys.tenant_of(request.headers))
    if stream is None:
        return JSONResponse(whole(await exchange.outcomes(request)))
    await exchange.begun()
    return EventStream(exchange, stream(exchange), request.url.path)
