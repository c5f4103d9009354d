"""openai-python with strict response validation, on every route that it knows. It is what most frameworks stand on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from support.live_server import LiveServer, live_server
from support.scripted_completions import ScriptedCompletions

from relaylite.completion.answer import Missed, Reuse, TakenOver

SAID: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]


@pytest.fixture
def client(server: LiveServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0, _strict_response_validation=True) as client:
        yield client


def test_a_chat(client: openai.OpenAI, script: ScriptedCompletions) -> None:
    script.reuse = Reuse((TakenOver(0, 10, "prefix", "a"), TakenOver(12, 32, "span", "b")), (Missed("c", 7, "short: 7 of 32"),), 0.25)
    answer = client.chat.completions.create(model="any", messages=SAID, max_completion_tokens=50, temperature=0.5, seed=7)
    assert answer.choices[0].message.content == "Understood." and answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "stop" and answer.object == "chat.completion" and answer.model == "scripted"
    assert answer.usage and answer.usage.prompt_tokens_details and answer.usage.prompt_tokens_details.cached_tokens == 30
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    extra = answer.model_extra or {}
    assert extra["timings"]["cache_n"] == 30 and extra["timings"]["prompt_n"] == answer.usage.prompt_tokens - 30
    assert extra["relay"]["prefix"] == 10 and extra["relay"]["relayed"] == 20 and extra["relay"]["recomputed_share"] == 0.25
    assert extra["relay"]["spans"][1] == {"start": 12, "end": 32, "kind": "span", "source": "b"}
    assert extra["relay"]["missed"] == [{"source": "c", "n_tokens": 7, "reason": "short: 7 of 32"}]
    asked = script.requests[-1]
    assert asked.id == answer.id and [(m.role, m.text) for m in asked.messages] == [("system", "Be brief."), ("user", "Hello")]
    assert (asked.sampling.max_tokens, asked.sampling.temperature, asked.sampling.seed) == (50, 0.5, 7)


def test_a_stream_has_one_head_and_ends_with_usage(client: openai.OpenAI, script: ScriptedCompletions) -> None:
    script.enqueue("Grüße 🌍!")
    chunks = list(client.chat.completions.create(model="any", messages=SAID, stream=True, stream_options={"include_usage": True}))
    assert {(chunk.id, chunk.created, chunk.model, chunk.object) for chunk in chunks} == {
        (chunks[0].id, chunks[0].created, "scripted", "chat.completion.chunk")
    }
    assert chunks[0].choices[0].delta.role == "assistant" and not chunks[0].choices[0].delta.content
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == "Grüße 🌍!"
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 2) + ["stop"]
    assert chunks[-1].choices == [] and chunks[-1].usage and chunks[-1].usage.completion_tokens == len("Grüße 🌍!".encode())
    assert (chunks[-1].model_extra or {})["relay"]["prompt_tokens"] == chunks[-1].usage.prompt_tokens


def test_without_include_usage_the_figures_are_in_the_last_chunk(client: openai.OpenAI) -> None:
    *_, last = client.chat.completions.create(model="any", messages=SAID, stream=True)
    assert last.choices[0].finish_reason == "stop" and last.usage is None
    assert {"timings", "relay"} <= (last.model_extra or {}).keys()


@pytest.mark.parametrize("stream", [False, True])
def test_several_answers_each_have_their_index(client: openai.OpenAI, script: ScriptedCompletions, stream: bool) -> None:
    script.enqueue("one", "two")
    if stream:
        texts = {0: "", 1: ""}
        for chunk in client.chat.completions.create(model="any", messages=SAID, n=2, stream=True):
            texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    else:
        answer = client.chat.completions.create(model="any", messages=SAID, n=2)
        texts = {choice.index: choice.message.content or "" for choice in answer.choices}
        assert answer.usage and answer.usage.completion_tokens == 6
    assert texts == {0: "one", 1: "two"}


def test_log_probabilities(client: openai.OpenAI, script: ScriptedCompletions) -> None:
    answer = client.chat.completions.create(model="any", messages=SAID, logprobs=True, top_logprobs=2)
    entries = answer.choices[0].logprobs and answer.choices[0].logprobs.content
    assert entries and [entry.token for entry in entries] == list("Understood.")
    assert entries[0].bytes == [ord("U")] and entries[0].logprob == -0.5
    assert [top.logprob for top in entries[0].top_logprobs] == [-0.5, -9999.0]  # JSON has no minus infinity
    assert script.requests[-1].n_logprobs == 2
    streamed = list(client.chat.completions.create(model="any", messages=SAID, logprobs=True, stream=True))
    logprobs = [c.choices[0].logprobs.content for c in streamed if c.choices[0].logprobs and c.choices[0].logprobs.content]
    assert "".join(entry.token for each in logprobs for entry in each) == "Understood."


def test_completions(client: openai.OpenAI, script: ScriptedCompletions) -> None:
    answer = client.completions.create(model="any", prompt=["a", "b"], echo=True, max_tokens=3)
    assert [(each.index, each.text, each.finish_reason) for each in answer.choices] == [(0, "aUnd", "length"), (1, "bUnd", "length")]
    assert [request.prompt for request in script.requests] == ["a", "b"]
    probed = client.completions.create(model="any", prompt=[72, 105], logprobs=1)
    assert script.requests[-1].prompt == (72, 105)
    logprobs = probed.choices[0].logprobs
    assert logprobs and logprobs.tokens == list("Understood.") and logprobs.text_offset == list(range(11))
    assert logprobs.top_logprobs and list(logprobs.top_logprobs[0].values()) == [-0.5]
    client._strict_response_validation = False  # its type knows no answer that is still being written, which all servers send
    chunks = list(client.completions.create(model="any", prompt="a", stream=True, stream_options={"include_usage": True}))
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == "Understood."
    assert chunks[-2].choices[0].finish_reason == "stop" and chunks[-1].choices == [] and chunks[-1].usage


def test_responses(client: openai.OpenAI, script: ScriptedCompletions) -> None:
    answer = client.responses.create(model="any", input="Hello", instructions="Be brief.", max_output_tokens=4)
    assert answer.output_text == "Unde" and answer.status == "incomplete"
    assert answer.incomplete_details and answer.incomplete_details.reason == "max_output_tokens"
    assert answer.usage and answer.usage.input_tokens_details.cached_tokens == 0
    assert [(m.role, m.text) for m in script.requests[-1].messages] == [("system", "Be brief."), ("user", "Hello")]
    events = list(client.responses.create(model="any", input=SAID, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Understood."
    assert events[0].type == "response.created" and events[-1].type == "response.completed"
    assert events[-1].response.output_text == "Understood."


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["scripted"]
    assert client.models.retrieve("org/another").id == "scripted"


def test_errors_are_those_that_the_client_knows(client: openai.OpenAI, script: ScriptedCompletions) -> None:
    with pytest.raises(openai.BadRequestError, match="temperature") as wrong:
        client.chat.completions.create(model="any", messages=SAID, temperature=99)
    assert wrong.value.param == "temperature" and wrong.value.type == "invalid_request_error"
    with pytest.raises(openai.BadRequestError) as long:
        client.chat.completions.create(model="any", messages=[{"role": "user", "content": "x" * 5000}])
    assert long.value.type == "exceed_context_size_error"
    assert isinstance(long.value.body, dict) and long.value.body["n_ctx"] == 4096 and long.value.body["n_prompt_tokens"] > 5000
    with pytest.raises(openai.APIStatusError) as missing:
        client.embeddings.create(model="any", input="x")
    assert missing.value.status_code == 501 and missing.value.type == "not_supported_error"  # type: ignore[attr-defined]
    for more in ({"tools": [{"type": "function", "function": {"name": "f"}}]}, {"response_format": {"type": "json_object"}}):
        with pytest.raises(openai.BadRequestError, match="not supported yet"):
            client.chat.completions.create(model="any", messages=SAID, **more)
    with pytest.raises(openai.BadRequestError, match="text only"):
        image: Any = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]
        client.chat.completions.create(model="any", messages=image)


def test_an_error_in_the_middle_of_a_stream_is_an_event(client: openai.OpenAI, script: ScriptedCompletions) -> None:
    from relaylite.errors import NativeError

    script.fail(NativeError("decoding failed"), after_tokens=3)
    script.token_gate.clear()
    stream = client.chat.completions.create(model="any", messages=SAID, stream=True)
    script.token_gate.set()
    with pytest.raises(openai.APIError, match="decoding failed"):
        list(stream)
    script.fail(NativeError("prefill failed"))
    with pytest.raises(openai.InternalServerError, match="prefill failed"):  # before anything was sent: plain HTTP
        client.chat.completions.create(model="any", messages=SAID, stream=True)


def test_keys() -> None:
    with live_server(ScriptedCompletions(), keys=("right", "other")) as server:
        for key, is_right in (("right", True), ("other", True), ("wrong", False), ("righ", False)):
            client = openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0, _strict_response_validation=True)
            if is_right:
                assert client.chat.completions.create(model="any", messages=SAID).choices
            else:
                with pytest.raises(openai.AuthenticationError) as refused:
                    client.chat.completions.create(model="any", messages=SAID)
                assert refused.value.type == "authentication_error"
