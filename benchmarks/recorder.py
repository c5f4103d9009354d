"""`Recorder`: passes HTTP requests on to a server, and notes what each answer says of its prompt."""

from __future__ import annotations

import http.client
import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Recorded:
    """`cached`: prompt tokens that were not computed. `prompt_ms`: what computing the rest took."""

    path: str
    status: int
    prompt_tokens: int = 0
    cached: int = 0
    prompt_ms: float = 0.0


class Recorder:
    """Listens at a free port of this machine; `requests` are those that were answered, in that order."""

    def __init__(self, port: int) -> None:
        self.requests: list[Recorded] = []
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._pass_on(b"")

            def do_POST(self) -> None:
                self._pass_on(self.rfile.read(int(self.headers.get("content-length", 0))))

            def _pass_on(self, body: bytes) -> None:
                upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=1200)
                headers = {
                    name: value for name, value in self.headers.items() if name.lower() not in ("host", "content-length", "connection")
                }
                upstream.request(self.command, self.path, body or None, headers)
                answer = upstream.getresponse()
                self.send_response(answer.status)
                self.send_header("content-type", answer.headers.get("content-type", ""))
                self.send_header("connection", "close")
                self.end_headers()
                data = b""
                while chunk := answer.read1(65536):
                    data += chunk
                    self.wfile.write(chunk)
                self.close_connection = True
                recorder.requests.append(recorded(self.path, answer.status, data))

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def recorded(path: str, status: int, data: bytes) -> Recorded:
    """From the object `timings`, which both servers put into an answer, and into the last chunks of a stream."""
    documents = [line.removeprefix(b"data: ") for line in data.splitlines() if line.startswith(b"data: {")] or [data]
    for document in reversed(documents):
        try:
            timings = json.loads(document)["timings"]
        except (ValueError, KeyError, TypeError):
            continue
        return Recorded(path, status, timings["cache_n"] + timings["prompt_n"], timings["cache_n"], timings["prompt_ms"])
    return Recorded(path, status)
