"""Anthropic's form, and llama-server's own."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from support.live_server import LiveServer
from support.scripted_completions import ScriptedCompletions

from relaylite.completion.answer import Reuse, TakenOver

SAID = [{"role": "user", "content": "Hello"}]


def events_of(answer: httpx.Response) -> list[tuple[str, Any]]:
    """Name and data of each event. An SSE reader knows no more than this."""
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    blocks = [block.splitlines() for block in answer.text.split("\n\n") if block.strip()]
    named = [dict(line.split(": ", 1) for line in block if not line.startswith(":")) for block in blocks]
    return [(each.get("event", ""), json.loads(each["data"])) for each in named if each]


def test_a_message(server: LiveServer, script: ScriptedCompletions) -> None:
    script.reuse = Reuse((TakenOver(0, 10, "prefix", ""),))
    answer = server.http.post("/v1/messages", json={"model": "any", "max_tokens": 100, "system": "Be brief.", "messages": SAID}).json()
    assert answer["type"] == "message" and answer["role"] == "assistant" and answer["stop_reason"] == "end_turn"
    assert answer["content"] == [{"type": "text", "text": "Understood."}]
    prompt = len(script.render(script.requests[-1].messages)[1])
    assert answer["usage"]["input_tokens"] == prompt - 10 and answer["usage"]["cache_read_input_tokens"] == 10
    assert answer["usage"]["output_tokens"] == 11 and answer["relay"]["prefix"] == 10


def test_the_events_of_a_message_come_in_anthropics_order(server: LiveServer) -> None:
    body = {"messages": SAID, "max_tokens": 100, "stream": True, "stop_sequences": ["stood"]}
    events = events_of(server.http.post("/v1/messages", json=body))
    assert all(name == data["type"] for name, data in events)
    names = [name for name, _ in events if name != "content_block_delta"]
    assert names == ["message_start", "content_block_start", "ping", "content_block_stop", "message_delta", "message_stop"]
    assert "".join(data["delta"]["text"] for name, data in events if name == "content_block_delta") == "Under"
    [ended] = [data for name, data in events if name == "message_delta"]
    assert ended["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "stood"}
    assert ended["usage"]["output_tokens"] == 5


def test_blocks_of_a_conversation_become_messages(server: LiveServer, script: ScriptedCompletions) -> None:
    said = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "two"}],
        },
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "…"}, {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "42"}, {"type": "text", "text": "go on"}]},
    ]
    body = {"messages": said, "max_tokens": 9, "system": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]}
    assert server.http.post("/v1/messages", json=body).status_code == 200
    assert [(m.role, m.text) for m in script.requests[-1].messages] == [
        ("system", "A\nB"),
        ("user", "one\ntwo"),
        ("assistant", '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'),
        ("tool", "42"),
        ("user", "go on"),
    ]
    counted = server.http.post("/v1/messages/count_tokens", json=body).json()
    assert counted == {"input_tokens": len(script.render(script.requests[-1].messages)[1])}


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"messages": 5}, 400, "invalid_request_error"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, 400, "invalid_request_error"),
        ({"messages": SAID, "tools": [{"name": "f"}]}, 400, "invalid_request_error"),
        ({"messages": [{"role": "user", "content": "x" * 5000}]}, 400, "invalid_request_error"),
    ],
)
def test_errors_have_anthropics_shape(server: LiveServer, body: Any, status: int, kind: str) -> None:
    answer = server.http.post("/v1/messages", json=body)
    assert answer.status_code == status and answer.json()["type"] == "error"
    assert answer.json()["error"]["type"] == kind and answer.json()["error"]["message"]


def test_llama_servers_completion(server: LiveServer, script: ScriptedCompletions) -> None:
    script.enqueue("one\ntwo, three")
    answer = server.http.post(
        "/completion",
        json={"prompt": "<|im_start|>x", "parse_special": True, "n_predict": 50, "stop": [", "], "return_tokens": True, "n_probs": 1},
    ).json()
    assert answer["content"] == "one\ntwo" and answer["stop"] is True and answer["has_new_line"] is True
    assert (answer["stop_type"], answer["stopping_word"], answer["tokens_predicted"]) == ("word", ", ", 7)
    assert bytes(answer["tokens"]) == b"one\ntwo" and answer["tokens_evaluated"] == 2  # the control token is one
    assert answer["completion_probabilities"][0]["top_logprobs"][0]["logprob"] == -0.5
    assert answer["generation_settings"]["n_predict"] == 50 and answer["timings"]["prompt_n"] == 2 and answer["relay"]["computed"] == 2
    plain = server.http.post("/completion", json={"prompt": "<|im_start|>", "n_predict": 3}).json()
    assert (plain["stop_type"], plain["tokens_evaluated"]) == ("limit", 12)
    assert server.http.post("/completions", json={"prompt": ["a", 98]}).json()["stop_type"] == "eos"
    assert script.requests[-1].prompt == (97, 98)
    assert [each["index"] for each in server.http.post("/completion", json={"prompt": ["a", "b"]}).json()] == [0, 1]


def test_llama_servers_stream(server: LiveServer) -> None:
    answer = server.http.post("/completion", json={"prompt": "a", "stream": True})
    chunks = [data for _, data in events_of(answer)]
    assert "".join(chunk["content"] for chunk in chunks) == "Understood." and "[DONE]" not in answer.text
    assert [chunk["stop"] for chunk in chunks] == [False] * 11 + [True] and chunks[-1]["timings"]["predicted_n"] == 11


def test_tokens_and_template(server: LiveServer) -> None:
    post = server.http.post
    assert post("/tokenize", json={"content": "a<|im_end|>"}).json() == {"tokens": [97, 257]}
    assert post("/tokenize", json={"content": "é", "with_pieces": True}).json()["tokens"] == [
        {"id": 195, "piece": [195]},
        {"id": 169, "piece": [169]},
    ]
    assert len(post("/tokenize", json={"content": "<|im_end|>", "parse_special": False}).json()["tokens"]) == 10
    assert post("/detokenize", json={"tokens": [195, 169]}).json() == {"content": "é"}
    assert post("/detokenize", json={"tokens": [-1]}).status_code == 400
    assert post("/apply-template", json={"messages": SAID}).json() == {"prompt": "<|im_start|>user\nHello<|im_end|>\n"}
