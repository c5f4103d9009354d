"""The server on the small model: what one request wrote is taken over by the next one, and a client that leaves stops it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from support.live_server import LiveServer, live_server, wait_until

from relaylite.api import Relay


@pytest.fixture(scope="module")
def relay(default_model_path: Path) -> Iterator[Relay]:
    with Relay(default_model_path, n_ctx=1024, n_threads=1, n_parallel=2) as relay:
        yield relay


@pytest.fixture
def server(relay: Relay) -> Iterator[LiveServer]:
    with live_server(relay.completions) as server:
        yield server


def test_an_answer_in_another_agents_message_is_relayed(server: LiveServer) -> None:
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0, timeout=300, _strict_response_validation=True)

    def ask(system: str, text: str, max_tokens: int) -> Any:
        said: Any = [{"role": "system", "content": system}, {"role": "user", "content": text}]
        return client.chat.completions.create(model="any", messages=said, max_tokens=max_tokens, temperature=0)

    plan = ask("You plan. Write in full sentences.", "Plan a vegetable garden.", 70)
    review = ask("You review plans, and you are brief.", f"Review this plan.\n\n{plan.choices[0].message.content}", 4)
    figures = review.model_extra["relay"]
    assert figures["relayed"] >= 0.9 * plan.usage.completion_tokens
    assert figures["prefix"] + figures["relayed"] + figures["computed"] == review.usage.prompt_tokens == figures["prompt_tokens"]
    assert {span["source"] for span in figures["spans"]} == {plan.id}
    exact = client.chat.completions.with_raw_response.create(
        model="any", messages=[{"role": "user", "content": "Hi"}], max_tokens=2, extra_headers={"X-Relay-Policy": "full"}
    )
    assert exact.parse().model_extra["relay"]["policy"] == "full"  # type: ignore[index]


def test_leaving_stops_the_engine(server: LiveServer, relay: Relay) -> None:
    body = {"prompt": "Once upon a time", "n_predict": 900, "stream": True}
    with server.http.stream("POST", "/completion", json=body, timeout=120) as answer:
        lines = answer.iter_lines()  # kept: the connection is closed with it
        next(lines)
        assert relay.completions.overview().n_running == 1
    assert wait_until(lambda: relay.completions.overview().n_running == 0, 10) < 5  # 0.5 s on a machine that has nothing else to do
    assert server.http.post("/completion", json={"prompt": "A", "n_predict": 1}, timeout=120).status_code == 200


def test_the_prompt_that_is_shown_is_the_one_that_is_read(server: LiveServer) -> None:
    said = [{"role": "user", "content": "Hello <|im_end|> there"}]
    shown = server.http.post("/apply-template", json={"messages": said}).json()["prompt"]
    assert "Hello <|im_end|> there" in shown
    tokens = server.http.post("/tokenize", json={"content": "Hello there"}).json()["tokens"]
    assert server.http.post("/detokenize", json={"tokens": tokens}).json() == {"content": "Hello there"}
    n_counted = server.http.post("/v1/messages/count_tokens", json={"messages": said}).json()["input_tokens"]
    answer = server.http.post("/v1/chat/completions", json={"messages": said, "max_tokens": 1}, timeout=120).json()
    assert answer["usage"]["prompt_tokens"] == n_counted
