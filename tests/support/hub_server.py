"""A local HTTP server with the part of the Hugging Face hub's interface that a download uses. Real sockets, real huggingface_hub."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OLD_COMMIT = "89abcdef0123456789abcdef0123456789abcdef"  # `v1` names it; it has the same files


@dataclass
class Hub:
    """`files` by `owner/repo/file`. `cut_after`: bytes after which each body breaks off; `corrupt`: bodies differ from their checksum."""

    files: dict[str, bytes] = field(default_factory=dict)
    cut_after: int | None = None
    corrupt: bool = False
    stall: threading.Event | None = None  # set: sends half of each body, then nothing until the event
    refuse: tuple[int, str] | None = None  # status and X-Error-Code of every answer
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)  # method, path, Range
    url: str = ""

    def find(self, path: str) -> bytes | tuple[int, str]:
        """The file at the path of a request, or status and X-Error-Code of a refusal."""
        if self.refuse:
            return self.refuse
        repo, _, rest = path.lstrip("/").partition("/resolve/")
        revision, _, file = rest.partition("/")
        if not any(name.startswith(repo + "/") for name in self.files):
            return 404, "RepoNotFound"
        if revision not in ("main", COMMIT, "v1", OLD_COMMIT):
            return 404, "RevisionNotFound"
        return self.files.get(f"{repo}/{file}", (404, "EntryNotFound"))


class _Handler(BaseHTTPRequestHandler):
    hub: Hub  # each server has a class of its own, with its hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def fail(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def answer(self, with_body: bool) -> None:
        asked = self.headers.get("Range")
        self.hub.requests.append((self.command, self.path, asked))
        found = self.hub.find(unquote(self.path))
        if isinstance(found, bytes):
            self.send_file(found, asked, with_body)
        else:
            self.fail(*found)

    def send_file(self, content: bytes, asked: str | None, with_body: bool) -> None:
        etag, start = hashlib.sha256(content).hexdigest(), int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        body = (bytes(len(content)) if self.hub.corrupt else content)[start:]
        self.send_response(206 if asked else 200)
        is_old = any(f"/resolve/{name}/" in self.path for name in ("v1", OLD_COMMIT))
        self.send_header("X-Repo-Commit", OLD_COMMIT if is_old else COMMIT)
        self.send_header("X-Linked-Etag", f'"{etag}"')
        self.send_header("X-Linked-Size", str(len(content)))
        self.send_header("ETag", f'"{etag}"')
        self.send_header("Content-Length", str(len(body)))
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        with suppress(ConnectionError):  # a download that was stopped
            self.send_body(body, with_body)

    def send_body(self, body: bytes, with_body: bool) -> None:
        if with_body and self.hub.stall:
            self.wfile.write(body[: len(body) // 2])
            self.hub.stall.wait(30)
        elif with_body:
            self.wfile.write(body if self.hub.cut_after is None else body[: self.hub.cut_after])
            self.close_connection = self.hub.cut_after is not None


@contextmanager
def serve(hub: Hub) -> Iterator[Hub]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
