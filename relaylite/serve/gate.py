"""`Gate`: who comes in. Checks Host, Origin and API key before a request reaches its route, and answers CORS preflights."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relaylite.serve.errors import ApiError
from relaylite.serve.keys import Keys, given_key
from relaylite.serve.origins import Origins

PUBLIC = ("/", "/page.js", "/page.css", "/health", "/v1/health", "/models", "/v1/models")  # what llama-server shows without a key


class Gate:
    def __init__(self, app: ASGIApp, origins: Origins, keys: Keys) -> None:
        self._app, self._origins, self._keys = app, origins, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, path = Headers(scope=scope), scope["path"]
        answer = self._with_cors(headers, send)
        try:
            self._check_origin(headers)
            if scope["method"] == "OPTIONS":
                await self._preflight(headers)(scope, receive, answer)
                return
            if path not in PUBLIC and not self._keys.admits(given_key(headers)):
                raise ApiError(401, "Invalid API Key", headers={"www-authenticate": "Bearer"})
        except ApiError as error:
            await error.response(path)(scope, receive, answer)
            return
        await self._app(scope, receive, answer)

    def _check_origin(self, headers: Headers) -> None:
        host, origin = headers.get("host"), headers.get("origin")
        if host is not None and not self._origins.knows_host(host):
            raise ApiError(403, f"this server is not known as {host!r}; start it with --allow-host NAME if it is meant")
        if origin is not None and not self._origins.knows_origin(origin, host or ""):
            raise ApiError(403, f"pages of {origin!r} may not use this server; start it with --cors ORIGIN if they shall")

    def _preflight(self, headers: Headers) -> Response:
        allowed = {
            "access-control-allow-methods": "GET, POST, OPTIONS",
            "access-control-allow-headers": headers.get("access-control-request-headers", "*"),
            "access-control-max-age": "600",
        }
        if headers.get("access-control-request-private-network") == "true":
            allowed["access-control-allow-private-network"] = "true"
        return Response(status_code=204, headers=allowed if self._origins.allows(headers.get("origin", "")) else {})

    def _with_cors(self, headers: Headers, send: Send) -> Send:
        """`send`, with the header that lets an allowed page read the answer."""
        origin = headers.get("origin")

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                sent["x-content-type-options"] = "nosniff"
                if origin is not None and self._origins.allows(origin):
                    sent["access-control-allow-origin"] = origin
                    sent.add_vary_header("Origin")
            await send(message)

        return answer
