"""`Recorder`: passes HTTP requests on to a server, and keeps what was asked and what each answer says of its prompt."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Recorded:
    """`cached`: prompt tokens that were not computed. `spans`: where they stand in the prompt.

    `ttft_ms`: all that the request took, less what the server wrote for after the first token.
    """

    path: str
    status: int
    asked: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    prompt_tokens: int = 0
    cached: int = 0
    prompt_ms: float = 0.0
    ttft_ms: float = 0.0
    spans: tuple[tuple[int, int], ...] = ()


class Recorder:
    """Listens at a free port of this machine; `requests` are those that were answered, in that order."""

    def __init__(self, port: int) -> None:
        self.requests: list[Recorded] = []
        self.upstream = f"http://127.0.0.1:{port}"
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._pass_on(b"")

            def do_POST(self) -> None:
                self._pass_on(self.rfile.read(int(self.headers.get("content-length", 0))))

            def _pass_on(self, body: bytes) -> None:
                began = time.perf_counter()
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
                took_ms = (time.perf_counter() - began) * 1e3
                recorder.requests.append(recorded(self.path, answer.status, body, data, took_ms))

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


def recorded(path: str, status: int, body: bytes, data: bytes, took_ms: float) -> Recorded:
    """From the object `timings`, which both servers put into an answer, and into the last chunks of a stream."""
    lines = [line.removeprefix(b"data: ") for line in data.splitlines() if line.startswith(b"data: {")]
    documents = [document for document in map(_object, lines or [data]) if document]
    timings = next((document["timings"] for document in reversed(documents) if "timings" in document), None)
    if timings is None:
        return Recorded(path, status, _object(body))
    only_start = [{"start": 0, "end": timings["cache_n"]}]
    spans = next((document["relay"]["spans"] for document in documents if "relay" in document), only_start)
    return Recorded(
        path,
        status,
        _object(body),
        "".join(text for document in documents for text in _texts(document)),
        timings["cache_n"] + timings["prompt_n"],
        timings["cache_n"],
        timings["prompt_ms"],
        took_ms - timings["predicted_ms"],
        tuple((span["start"], span["end"]) for span in spans),
    )


def _object(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _texts(document: dict[str, Any]) -> Iterator[str]:
    for choice in document.get("choices", ()):
        yield (choice.get("delta") or choice.get("message") or {}).get("content") or ""
