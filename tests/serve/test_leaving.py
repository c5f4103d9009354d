"""A client that goes away stops its computation: in the queue, in prefill and in decoding, streaming or not."""

from __future__ import annotations

import json
import threading
import time
from functools import partial
from typing import Any

import httpx
import pytest
from support.live_server import LiveServer, live_server, wait_until
from support.scripted_completions import ScriptedCompletions

SAID = [{"role": "user", "content": "Hello"}]
ROUTES = {
    "/v1/chat/completions": {"messages": SAID},
    "/v1/completions": {"prompt": ["a", "b"]},
    "/completion": {"prompt": "a"},
    "/v1/messages": {"messages": SAID},
    "/v1/responses": {"input": "Hello"},
}
WITHIN_S = 0.5


def leave(server: LiveServer, path: str, body: dict[str, Any], wait: Any) -> float:
    """Send the request, hang up when `wait` says so; the time when that was."""
    content = json.dumps(body).encode()
    with server.raw() as client:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        client.sendall(head.encode() + content)
        wait_until(wait)
        return time.monotonic()


def state_of(script: ScriptedCompletions, number: int) -> str:
    return script.states[script.requests[number].id].state if len(script.requests) > number else ""


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("where", ["queued", "prefill", "writing"])
def test_leaving_cancels(server: LiveServer, script: ScriptedCompletions, path: str, stream: bool, where: str) -> None:
    (script.token_gate if where == "writing" else script.prefill_gate).clear()
    first = 0
    if where == "queued":
        blocker = threading.Thread(target=lambda: server.http.post("/completion", json={"prompt": "x"}))
        blocker.start()
        wait_until(lambda: state_of(script, 0) == "prefill")
        first = 1
    left_at = leave(server, path, {**ROUTES[path], "stream": stream}, lambda: state_of(script, first) == where)
    wait_until(lambda: state_of(script, first) == "cancelled")
    assert script.cancelled[script.requests[first].id] - left_at < WITHIN_S
    script.prefill_gate.set()
    script.token_gate.set()
    if where == "queued":
        blocker.join()
        assert state_of(script, 0) == "finished"
    assert server.http.post("/v1/chat/completions", json={"messages": SAID}).status_code == 200


def test_a_complete_answer_cancels_nothing(server: LiveServer, script: ScriptedCompletions) -> None:
    for path, body in ROUTES.items():
        for stream in (False, True):
            assert server.http.post(path, json={**body, "stream": stream}).status_code == 200
    time.sleep(0.1)
    assert not script.cancelled


def test_comments_while_a_prompt_is_computed(server: LiveServer, script: ScriptedCompletions) -> None:
    script.prefill_gate.clear()
    comments: list[float] = []
    body = {"messages": SAID, "stream": True}
    with server.http.stream("POST", "/v1/chat/completions", json=body) as answer:
        begun = time.monotonic()
        for line in answer.iter_lines():
            if line.startswith(":"):
                comments.append(time.monotonic() - begun)
                if len(comments) == 2:
                    script.prefill_gate.set()
            elif line.startswith("data: "):
                break
    assert len(comments) == 2 and comments[0] < 1.9 and 0.5 < comments[1] - comments[0] < 1.9


def test_a_busy_server_never_says_so() -> None:
    script = ScriptedCompletions()
    script.prefill_gate.clear()
    with live_server(script) as server:
        statuses: list[int] = []
        ask = partial(server.http.post, "/completion", json={"prompt": "x"})
        threads = [threading.Thread(target=lambda: statuses.append(ask().status_code)) for _ in range(20)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(script.requests) == 20)
        assert "llamacpp:requests_deferred 19" in server.http.get("/metrics").text
        script.prefill_gate.set()
        for thread in threads:
            thread.join()
    assert statuses == [200] * 20


def test_stopping_ends_what_runs_and_is_quick() -> None:
    script = ScriptedCompletions()
    script.token_gate.clear()
    results: list[Any] = []

    def ask(url: str) -> None:
        try:
            results.append(httpx.post(f"{url}/completion", json={"prompt": "x"}, timeout=20).status_code)
        except httpx.HTTPError as error:
            results.append(error)

    with live_server(script) as server:
        thread = threading.Thread(target=ask, args=(server.url,))
        thread.start()
        wait_until(lambda: state_of(script, 0) == "writing")
        begun = time.monotonic()
    assert time.monotonic() - begun < 3
    thread.join()
    wait_until(lambda: state_of(script, 0) == "cancelled")
    assert results
