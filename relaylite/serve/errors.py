"""`ApiError`: what a client gets to read when a request fails, in OpenAI's and in Anthropic's shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import JSONResponse

from relaylite.errors import Cancelled, ContextOverflow, EngineClosed, RelayliteError, UsageError

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    500: "server_error",
    501: "not_supported_error",
    503: "unavailable_error",
}
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    500: "api_error",
    503: "overloaded_error",
}
CONTEXT_TYPE = "exceed_context_size_error"


@dataclass(eq=False)
class ApiError(Exception):
    """`param`: the field that is wrong. `details`: more fields of the error, such as `n_ctx`."""

    status: int
    message: str
    param: str | None = None
    type: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(self.message)
        self.type = self.type or _TYPES.get(self.status, "invalid_request_error")

    def document(self) -> dict[str, Any]:
        """OpenAI's shape, with llama-server's numbers in it."""
        known: dict[str, Any] = {"code": self.status, "message": self.message, "type": self.type, "param": self.param}
        return {"error": {**known, **self.details}}

    def anthropic_document(self) -> dict[str, Any]:
        kind = _ANTHROPIC_TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": self.message}}

    def document_for(self, path: str) -> dict[str, Any]:
        return self.anthropic_document() if path.startswith("/v1/messages") else self.document()

    def response(self, path: str) -> JSONResponse:
        return JSONResponse(self.document_for(path), self.status, headers=dict(self.headers))


def translated(error: Exception) -> ApiError:
    """What relaylite raised on purpose, as the client's error; anything else is a defect, of which the client learns no more."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ContextOverflow):
        return ApiError(400, str(error), type=CONTEXT_TYPE)
    if isinstance(error, UsageError):
        return ApiError(400, str(error))
    if isinstance(error, EngineClosed | Cancelled):
        return ApiError(503, "the server is stopping")
    if isinstance(error, RelayliteError | MemoryError):
        return ApiError(500, str(error) or "out of memory")
    return ApiError(500, "internal error; the server's log says more")
