"""`Server`: listens at once, and serves an application in a thread of its own until it is stopped."""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import suppress

import uvicorn
from starlette.types import ASGIApp

from relaylite.errors import UsageError
from relaylite.serve.protocol import PatientProtocol

KEEP_ALIVE_S = 75
GRACE_S = 1  # answers that are being written when the server stops have so long to end


def listening(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one. Raises UsageError in one line if this cannot be."""
    try:
        [(family, kind, _, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        bound = socket.socket(family, kind)
    except OSError as error:
        raise UsageError(f"--host {host!r} is no address of this machine: {error.strerror or error}") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(1024)
    except OSError as error:
        bound.close()
        raise UsageError(f"cannot listen at {host}:{port}: {error.strerror or error}; give another --port or --host") from error
    return bound


class Server:
    """Used by one thread, but for `stop`."""

    def __init__(self, app: ASGIApp, place: socket.socket) -> None:
        for name in ("uvicorn", "uvicorn.error", "uvicorn.asgi", "uvicorn.access", "sse_starlette"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # the application logs what matters
        config = uvicorn.Config(
            app,
            http=PatientProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
        self._place, self._server = place, uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="relaylite-serve", daemon=True)

    @property
    def port(self) -> int:
        port: int = self._place.getsockname()[1]
        return port

    def start(self) -> None:
        self._thread.start()

    def wait(self) -> None:
        """Until the server has stopped."""
        self._thread.join()

    def stop(self) -> None:
        """Take no more requests, and end those that run within GRACE_S and a little. From any thread; `wait` waits for it."""
        self._server.should_exit = True

    def _serve(self) -> None:
        with suppress(SystemExit):
            self._server.run(sockets=[self._place])
        self._place.close()
