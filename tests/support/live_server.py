"""A server of `relaylite.serve` in a thread, on scripted completions or on others."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from relaylite.serve.app import create_app
from relaylite.serve.interface import CompletionsLike
from relaylite.serve.keys import Keys
from relaylite.serve.origins import Origins
from relaylite.serve.server import Server, listening
from relaylite.serve.service import Service
from support.scripted_completions import ScriptedCompletions


@dataclass(frozen=True)
class LiveServer:
    port: int
    service: Service
    http: httpx.Client

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def raw(self) -> socket.socket:
        """A connection to send whatever one likes."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)


@contextmanager
def live_server(completions: CompletionsLike | None, *, keys: tuple[str, ...] = (), cors: tuple[str, ...] = ()) -> Iterator[LiveServer]:
    """`completions` None: a server whose model still loads."""
    service = Service(keys=Keys(keys))
    if completions is not None:
        service.open(completions)
    server = Server(create_app(service, Origins("127.0.0.1", cors)), listening("127.0.0.1", 0))
    server.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=20) as client:
            yield LiveServer(server.port, service, client)
    finally:
        server.stop()
        server.wait()


def wait_until(condition: Callable[[], object], seconds: float = 5.0) -> float:
    """Seconds until `condition` held. Fails if it does not."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < seconds, "it never came true"
        time.sleep(0.005)
    return time.monotonic() - begun


__all__ = ["LiveServer", "ScriptedCompletions", "live_server", "wait_until"]
