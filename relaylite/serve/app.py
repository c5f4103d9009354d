"""`create_app`: the routes, who may come in, and what failures look like."""

from __future__ import annotations

import logging

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relaylite.errors import RelayliteError
from relaylite.serve.dialects.anthropic import count_tokens, messages
from relaylite.serve.dialects.chat import chat_completions
from relaylite.serve.dialects.legacy import completions
from relaylite.serve.dialects.native import completion
from relaylite.serve.dialects.responses import responses
from relaylite.serve.errors import ApiError, translated
from relaylite.serve.exchange import ClientGone
from relaylite.serve.gate import Gate
from relaylite.serve.origins import Origins
from relaylite.serve.service import Service
from relaylite.serve.status.live_page import FILES, live_page
from relaylite.serve.status.metrics import metrics
from relaylite.serve.status.model import health, models, one_model, props
from relaylite.serve.status.requests import requests, slots
from relaylite.serve.status.tokens import apply_template, detokenize, tokenize

log = logging.getLogger("relaylite.serve")

POSTED = {
    "/v1/chat/completions": chat_completions,
    "/chat/completions": chat_completions,
    "/v1/completions": completions,
    "/completion": completion,
    "/completions": completion,
    "/v1/messages": messages,
    "/v1/messages/count_tokens": count_tokens,
    "/v1/responses": responses,
    "/responses": responses,
    "/tokenize": tokenize,
    "/detokenize": detokenize,
    "/apply-template": apply_template,
}
READ = {
    "/health": health,
    "/v1/health": health,
    "/v1/models": models,
    "/models": models,
    "/v1/models/{id:path}": one_model,
    "/props": props,
    "/slots": slots,
    "/metrics": metrics,
    "/relay/requests": requests,
}
NOT_HERE = (
    *("/embedding", "/embeddings", "/v1/embeddings", "/rerank", "/reranking", "/v1/rerank", "/v1/reranking", "/infill", "/lora-adapters"),
    *("/v1/audio/{rest:path}", "/v1/images/{rest:path}", "/v1/moderations", "/v1/files", "/v1/batches", "/v1/fine_tuning/{rest:path}"),
    *("/v1/responses/{rest:path}", "/v1/conversations", "/v1/conversations/{rest:path}", "/slots/{id}", "/v1/realtime", "/v1/assistants"),
)


def create_app(service: Service, origins: Origins) -> Starlette:
    """The application for one server. It answers 503 until `service` has a model."""
    app = Starlette(
        routes=[
            *(Route(path, endpoint, methods=["POST"]) for path, endpoint in POSTED.items()),
            *(Route(path, endpoint, methods=["GET"]) for path, endpoint in READ.items()),
            *(Route(path, live_page, methods=["GET"]) for path in FILES),
            *(Route(path, _not_here, methods=["GET", "POST", "PUT", "DELETE", "PATCH"]) for path in NOT_HERE),
            Route("/props", _not_here, methods=["POST"]),
        ],
        middleware=[Middleware(Failsafe), Middleware(Gate, origins=origins, keys=service.keys)],
        exception_handlers={ApiError: _failed, RelayliteError: _failed, MemoryError: _failed, HTTPException: _refused, ClientGone: _left},
    )
    app.router.redirect_slashes = False
    app.state.service = service
    return app


class Failsafe:
    """A defect costs one request: the client gets an error in the usual shape, the log gets the traceback."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except TimeoutError:  # a client that reads nothing
            log.warning("%s: the client read nothing for too long", scope["path"])
        except Exception as error:
            log.exception("%s %s failed", scope.get("method"), scope.get("path"))
            if not begun and scope["type"] == "http":
                await translated(error).response(scope["path"])(scope, receive, send)


async def _not_here(request: Request) -> Response:
    raise ApiError(501, f"{request.url.path} is not supported by this server")


async def _failed(request: Request, error: Exception) -> Response:
    return translated(error).response(request.url.path)


async def _refused(request: Request, error: Exception) -> Response:
    """What Starlette itself refuses: an unknown path, a method that the path does not have."""
    assert isinstance(error, HTTPException)
    path = request.url.path
    says = {404: f"there is no {path} here", 405: f"{path} cannot be used with {request.method}"}.get(error.status_code, error.detail)
    return ApiError(error.status_code, says, headers=Headers(error.headers or {})).response(path)


async def _left(request: Request, error: Exception) -> Response:
    return Response(status_code=499)
