"""Completions on the small model: answers do not depend on who else asks, and what was computed is kept."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.reach import EXPECTED
from support.tiny_models import write_model

from relaylite.api import Relay
from relaylite.completion.answer import Finished, Prefilled
from relaylite.completion.request import ChatMessage, CompletionRequest
from relaylite.errors import Cancelled
from relaylite.reuse.policies import PREFIX, RELAY, Policy
from relaylite.sampling import Sampling

TASKS = ("Name three fruits.", "What is a prime number?", "Write a haiku about rain.", "Why is the sky blue?")


@pytest.fixture
def relay(default_model_path: Path) -> Iterator[Relay]:
    with Relay(default_model_path, n_ctx=2048, store_bytes=10**8) as relay:
        yield relay


def asking(text: str, n: int = 24, policy: Policy = RELAY, **values: str) -> CompletionRequest:
    return CompletionRequest((ChatMessage("user", text),), sampling=Sampling(max_tokens=n), policy=policy, **values)  # type: ignore[arg-type]


def finished(relay: Relay, request: CompletionRequest) -> Finished:
    return [event for event in relay.completions.submit(request).events() if isinstance(event, Finished)][-1]


def test_requests_that_take_turns_answer_as_one_after_the_other(relay: Relay) -> None:
    alone = [finished(relay, asking(task, policy=PREFIX)).text for task in TASKS]
    relay._store.clear()
    tickets = [relay.completions.submit(asking(task, policy=PREFIX)) for task in TASKS]
    together = [[event for event in ticket.events() if isinstance(event, Finished)][-1].text for ticket in tickets]
    assert together == alone


def test_an_answer_is_taken_over_from_another_context_and_into_one(relay: Relay) -> None:
    first = relay.completions.submit(asking("Write a long story about a fox.", 80, id="other"))
    second = relay.completions.submit(asking(TASKS[1], 8))
    assert [event for event in second.events() if isinstance(event, Finished)]
    answer = [event for event in first.events() if isinstance(event, Finished)][-1]
    reuse = finished(relay, asking(f"Shorten this:\n\n{answer.text}\n\nNow shorten it.", 8)).reuse
    spans = [each for each in reuse.taken_over if each.source == "other"]
    assert sum(each.end - each.start for each in spans) >= 0.95 * len(answer.tokens)


@pytest.mark.parametrize("kept", ["start", "whole"])
def test_states_that_an_engine_keeps_itself_serve_no_other_scope(tmp_path: Path, kept: str) -> None:
    arch = next(arch for arch, expected in EXPECTED.items() if expected.kept_states == kept)
    prompt = tuple(range(20, 120))

    def taken_over(relay: Relay, *scopes: str) -> list[int]:
        tickets = [
            relay.completions.submit(CompletionRequest(prompt=prompt, scope=scope, sampling=Sampling(max_tokens=2))) for scope in scopes
        ]
        events = [event for ticket in tickets for event in ticket.events()]
        return [event.reuse.prefix_tokens for event in events if isinstance(event, Prefilled)]

    with Relay(write_model(tmp_path / "m.gguf", arch, weights="F32"), n_ctx=512, store_bytes=10**8) as relay:
        assert taken_over(relay, "a") == [0]
        assert taken_over(relay, "a") == [99]
        assert taken_over(relay, "b") == [0]
        assert taken_over(relay, "a", "b", "a", "b", "") == [0] * 5


def test_what_a_cancelled_prefill_computed_is_kept(relay: Relay) -> None:
    text = "\n".join(f"{i}: the number {i} is followed by {i + 1}, and so on." for i in range(90))
    ticket = relay.completions.submit(asking(text))
    sequence = relay._runner.engine._sequence  # type: ignore[attr-defined]
    deadline = time.monotonic() + 60
    while len(sequence.tokens) < 512 and time.monotonic() < deadline:
        time.sleep(0.002)
    began = time.monotonic()
    ticket.cancel()
    with pytest.raises(Cancelled):
        list(ticket.events())
    assert time.monotonic() - began < 2  # half a second on a quiet machine
    (prefilled,) = [event for event in relay.completions.submit(asking(text, 1)).events() if isinstance(event, Prefilled)]
    assert len(prefilled.prompt) > 1024
    assert prefilled.reuse.prefix_tokens >= 512
