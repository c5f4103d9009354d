"""Who comes in, and what broken and hostile clients get: an error in the usual shape, and the server goes on."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from typing import Any

import httpx
import pytest
from support.live_server import LiveServer, live_server, wait_until
from support.scripted_completions import ScriptedCompletions

from relaylite.serve import body as body_module
from relaylite.serve import protocol
from relaylite.serve.origins import Origins

SAID = {"messages": [{"role": "user", "content": "Hello"}]}
PAGE = "https://evil.example"


def check_error(answer: httpx.Response, status: int, kind: str = "invalid_request_error") -> None:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["code"] == status and error["type"] == kind and error["message"] and "\n" not in error["message"]


def check_alive(server: LiveServer) -> None:
    assert server.http.post("/v1/chat/completions", json=SAID).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "evil.example:8080", "[x", "", "127.0.0.1.evil.example"])
def test_a_host_that_was_made_to_point_here_is_refused(server: LiveServer, host: str) -> None:
    check_error(server.http.get("/health", headers={"host": host}), 403, "permission_error")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1:1", "[::1]:80", "192.168.1.7", "app.localhost"])
def test_names_of_this_machine_are_known(server: LiveServer, host: str) -> None:
    assert server.http.get("/health", headers={"host": host}).status_code == 200


def test_more_names_can_be_given() -> None:
    assert Origins("0.0.0.0", names=["box.lan"]).knows_host("box.lan:80") and not Origins("0.0.0.0").knows_host("box.lan:80")


@pytest.mark.parametrize("origin", [PAGE, "null", "http://127.0.0.1:1", "http://localhost.evil.example"])
def test_a_page_from_elsewhere_cannot_drive_the_server(server: LiveServer, script: ScriptedCompletions, origin: str) -> None:
    check_error(server.http.post("/v1/chat/completions", json=SAID, headers={"origin": origin}), 403, "permission_error")
    preflight = server.http.options("/v1/chat/completions", headers={"origin": origin, "access-control-request-method": "POST"})
    assert preflight.status_code == 403 and not any("access-control" in name for name in preflight.headers)
    assert not script.requests


def test_its_own_page_may_and_so_may_one_that_was_allowed() -> None:
    with live_server(ScriptedCompletions(), cors=("https://chat.example/",), keys=("k",)) as server:
        own = server.http.get("/health", headers={"origin": server.url})
        assert own.status_code == 200 and "access-control-allow-origin" not in own.headers
        asked = {
            "origin": "https://chat.example",
            "access-control-request-headers": "authorization",
            "access-control-request-method": "POST",
        }
        preflight = server.http.options("/v1/chat/completions", headers=asked)  # carries no key
        assert preflight.status_code == 204 and preflight.headers["access-control-allow-origin"] == "https://chat.example"
        assert preflight.headers["access-control-allow-headers"] == "authorization"
        answer = server.http.post("/v1/chat/completions", json=SAID, headers={"origin": "https://chat.example", "x-api-key": "k"})
        assert answer.status_code == 200 and answer.headers["access-control-allow-origin"] == "https://chat.example"
        refused = server.http.post("/v1/chat/completions", json=SAID, headers={"origin": "https://chat.example"})
        assert refused.status_code == 401 and refused.headers["access-control-allow-origin"] == "https://chat.example"
        check_error(server.http.get("/health", headers={"origin": PAGE}), 403, "permission_error")


def test_keys_as_bearer_or_x_api_key_for_all_but_health_and_the_page() -> None:
    with live_server(ScriptedCompletions(), keys=("k",)) as server:
        for path in ("/health", "/v1/health", "/", "/page.js", "/v1/models"):
            assert server.http.get(path).status_code == 200, path
        for path in ("/props", "/slots", "/metrics", "/relay/requests", "/nothing"):
            check_error(server.http.get(path), 401, "authentication_error")
        for headers in ({"authorization": "Bearer k"}, {"authorization": "bearer  k"}, {"x-api-key": "k"}):
            assert server.http.post("/v1/chat/completions", json=SAID, headers=headers).status_code == 200
        wrong: list[Any] = [{}, {"authorization": "k"}, {"authorization": "Basic k"}, {"x-api-key": "K"}, {"x-api-key": b"k\xe9"}]
        for headers in wrong:
            check_error(server.http.post("/v1/chat/completions", json=SAID, headers=headers), 401, "authentication_error")
        assert server.http.post("/v1/messages", json=SAID).json()["error"]["type"] == "authentication_error"
        assert server.http.post("/v1/messages", json=SAID).json()["type"] == "error"


def test_who_holds_one_key_sees_no_request_of_another() -> None:
    script = ScriptedCompletions()
    with live_server(script, keys=("a", "b")) as server:
        script.enqueue("secret")
        assert server.http.post("/v1/chat/completions", json=SAID, headers={"x-api-key": "a"}).status_code == 200
        seen = {key: server.http.get("/relay/requests", headers={"x-api-key": key}).json()["requests"] for key in "ab"}
    assert [each["text"] for each in seen["a"]] == ["secret"] and seen["b"] == []


def test_until_the_model_is_loaded_the_answer_is_503() -> None:
    with live_server(None) as server:
        for answer in (server.http.get("/health"), server.http.post("/v1/chat/completions", json=SAID), server.http.get("/v1/models")):
            check_error(answer, 503, "unavailable_error")
        assert server.http.get("/").status_code == 200
        server.service.open(ScriptedCompletions())
        assert server.http.get("/health").json() == {"status": "ok"}
        check_alive(server)


def test_unknown_paths_methods_and_types(server: LiveServer) -> None:
    check_error(server.http.get("/nothing"), 404, "not_found_error")
    refused = server.http.put("/v1/chat/completions", json=SAID)
    check_error(refused, 405)
    assert refused.headers["allow"] == "POST"
    check_error(server.http.post("/v1/chat/completions", data={"messages": "x"}), 415)
    check_error(server.http.post("/v1/chat/completions", content=b"{}", headers={"content-type": "text/plain"}), 415)
    packed = {"content-type": "application/json", "content-encoding": "gzip"}
    check_error(server.http.post("/v1/chat/completions", content=b"{}", headers=packed), 415)
    for path in ("/v1/embeddings", "/v1/rerank", "/infill", "/v1/audio/speech", "/props"):
        check_error(server.http.post(path, json={}), 501, "not_supported_error")
    check_alive(server)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"null", b"1", b'"x"', b"\xff\xfe", b'{"messages": [{"role": "user", "content": "\xed\xa0\x80"}]}'),
        *(
            b'{"a": NaN}',
            b'{"a": 1e999, "messages": []}',
            b"[" * 100_000,
            b'{"a":' * 50_000,
            b'{"messages": ' + b"[" * 900 + b"]" * 900 + b"}",
        ),
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"messages": [{"role": "user", "content": "a"}], "stop": ["\\udfff"]}',
        b'{"seed": ' + b"9" * 5000 + b"}",
        b'{"messages": [{"role": "user", "content": "a"}], "temperature": ' + b"9" * 400 + b"}",
    ],
    ids=lambda content: content[:24].decode(errors="replace"),
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_bodies_that_are_no_request(server: LiveServer, content: bytes, path: str) -> None:
    answer = server.http.post(path, content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error" and error["message"]
    check_alive(server)


def test_a_pair_of_surrogates_is_a_character(server: LiveServer, script: ScriptedCompletions) -> None:
    content = b'{"messages": [{"role": "user", "content": "\\ud83c\\udf0d"}]}'
    assert server.http.post("/v1/chat/completions", content=content, headers={"content-type": "application/json"}).status_code == 200
    assert script.requests[-1].messages[0].text == "🌍"


def test_fifty_megabytes_are_not_read(server: LiveServer) -> None:
    with server.raw() as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 52428800\r\n\r\n")
        assert received(client).startswith(b"HTTP/1.1 413")

    def pieces() -> Any:
        for _ in range(50):
            yield b" " * 2**20

    with suppress(httpx.WriteError, httpx.ReadError):  # the server may hang up while it is still being sent to
        check_error(server.http.post("/v1/chat/completions", content=pieces(), headers={"content-type": "application/json"}), 413)
    check_alive(server)


def received(client: socket.socket) -> bytes:
    """All that comes until the other end closes."""
    data = b""
    while chunk := client.recv(4096):
        data += chunk
    return data


def test_what_is_no_http_gets_an_error_in_the_usual_shape(server: LiveServer) -> None:
    with server.raw() as client:
        client.sendall(b"\x16\x03\x01\x00\xa5 tls?\r\n\r\n")
        head, _, body = received(client).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400") and json.loads(body)["error"]["type"] == "invalid_request_error"
    check_alive(server)


def test_half_sent_requests_are_hung_up_on(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_LIMIT_S", 0.3)
    silent, head, again = server.raw(), server.raw(), server.raw()
    head.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localh")
    again.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = b""
    while not answer.endswith(b"}"):
        answer += again.recv(4096)
    again.sendall(b"GET /hea")  # a second request on the same connection
    begun = time.monotonic()
    for client in (silent, head, again):
        with suppress(ConnectionResetError):
            assert client.recv(4096) == b""
        client.close()
    assert time.monotonic() - begun < 3
    check_alive(server)


def test_a_body_that_never_ends_is_given_up(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module, "TIME_LIMIT_S", 0.3)
    with server.raw() as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        assert received(client).startswith(b"HTTP/1.1 408")
    check_alive(server)


def test_a_client_that_leaves_in_its_body_costs_nothing(server: LiveServer, script: ScriptedCompletions) -> None:
    with server.raw() as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
    check_alive(server)
    assert len(script.requests) == 1


def test_a_defect_costs_one_request(server: LiveServer, script: ScriptedCompletions, caplog: pytest.LogCaptureFixture) -> None:
    script.fail(ZeroDivisionError("inside"))
    answer = server.http.post("/v1/chat/completions", json=SAID)
    check_error(answer, 500, "server_error")
    assert "inside" not in answer.text
    wait_until(lambda: "ZeroDivisionError" in caplog.text)
    check_alive(server)
