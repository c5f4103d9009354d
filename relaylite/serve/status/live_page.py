"""The page at `/`: requests as they run, and a chat. Files that are sent as they are."""

from __future__ import annotations

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

# Nothing but the page's own files and this server; no page may hold it in a frame.
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {"content-security-policy": POLICY, "referrer-policy": "no-referrer", "cache-control": "no-cache"}
FILES = {"/": ("index.html", "text/html"), "/page.js": ("page.js", "text/javascript"), "/page.css": ("page.css", "text/css")}


async def live_page(request: Request) -> Response:
    name, kind = FILES[request.url.path]
    return Response((files(__package__) / "page" / name).read_bytes(), media_type=kind, headers=HEADERS)
