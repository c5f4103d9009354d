"""Bodies at random: every answer is one, or an error in the usual shape, and the server goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.live_server import LiveServer, live_server
from support.scripted_completions import ScriptedCompletions

GOOD: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}]},
    "/v1/completions": {"prompt": "x"},
    "/completion": {"prompt": "x"},
    "/v1/messages": {"messages": [{"role": "user", "content": "x"}], "max_tokens": 5},
    "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "x"}]},
    "/v1/responses": {"input": "x"},
    "/tokenize": {"content": "x"},
    "/detokenize": {"tokens": [1]},
    "/apply-template": {"messages": [{"role": "user", "content": "x"}]},
}
# fmt: off
NAMES = [
    "messages", "prompt", "input", "instructions", "system", "content", "tokens", "model", "stream", "stream_options", "temperature",
    "top_p", "top_k", "min_p", "seed", "stop", "stop_sequences", "max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict",
    "frequency_penalty", "presence_penalty", "repeat_penalty", "logit_bias", "logprobs", "top_logprobs", "n_probs", "n", "echo", "suffix",
    "tools", "functions", "tool_choice", "response_format", "text", "grammar", "relay", "cache_salt", "parse_special", "return_tokens",
    "with_pieces", "add_special", "metadata", "background", "previous_response_id",
]
# fmt: on
KINDS = (None, True, -1, 1.5, 10**400, "x", [[None]], {"type": []})
WORDS = st.sampled_from(
    [*NAMES, "role", "user", "assistant", "tool", "type", "function", "name", "arguments", "tool_calls", "policy", "image_url"]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | WORDS
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=3), max_leaves=6
)
MESSAGES = st.lists(
    st.dictionaries(st.sampled_from(["role", "content", "tool_calls", "name", "type"]), VALUES, max_size=4) | VALUES, max_size=3
)
FIELDS = (
    st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)
    | st.fixed_dictionaries({"messages": MESSAGES})
    | st.fixed_dictionaries({"input": MESSAGES})
)
UNTOLD = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.fixture(scope="module")
def target() -> Iterator[LiveServer]:
    script = ScriptedCompletions()
    script.fallback = "ok"
    with live_server(script) as server:
        yield server


def check(server: LiveServer, path: str, content: bytes) -> None:
    answer = server.http.post(path, content=content, headers={"content-type": "application/json"})
    if answer.status_code == 200:
        return
    assert 400 <= answer.status_code < 500, (answer.status_code, answer.text, content)
    error = answer.json()["error"]
    assert error["message"] and "\n" not in error["message"] and error["type"].endswith(("_error", "too_large")), answer.text


@given(path=st.sampled_from(list(GOOD)), fields=FIELDS)
@settings(max_examples=100, suppress_health_check=UNTOLD)
def test_wrong_types_at_every_field(target: LiveServer, path: str, fields: dict[str, Any]) -> None:
    check(target, path, json.dumps({**GOOD[path], **fields}).encode())
    check(target, path, json.dumps({**fields, **GOOD[path]}).encode())


@pytest.mark.parametrize("name", NAMES)
def test_one_field_of_each_wrong_kind(target: LiveServer, name: str) -> None:
    """Each route gets a third of the kinds, and each kind goes to a third of the routes."""
    for i, (path, body) in enumerate(GOOD.items()):
        for value in KINDS[i % 3 :: 3]:
            check(target, path, json.dumps({**body, name: value}).encode())


@given(path=st.sampled_from(list(GOOD)), content=st.binary(max_size=60))
@settings(max_examples=50, suppress_health_check=UNTOLD)
def test_bytes_at_random(target: LiveServer, path: str, content: bytes) -> None:
    check(target, path, content)


@given(path=st.sampled_from(list(GOOD)), at=st.integers(0, 60), value=st.binary(max_size=3))
@settings(max_examples=50, suppress_health_check=UNTOLD)
def test_good_bodies_with_a_scratch(target: LiveServer, path: str, at: int, value: bytes) -> None:
    content = json.dumps(GOOD[path]).encode()
    check(target, path, content[:at] + value + content[at + 1 :])
