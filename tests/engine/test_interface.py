"""What `EngineLike.generate` promises is kept by the real engine and by the scripted one, with which other packages are tested."""

from __future__ import annotations

import math
from typing import Any

import pytest
from support.fakes import FakeEngine
from support.live_engine import LiveEngine, plan_of

from relaylite.engine.interface import EngineLike
from relaylite.errors import UsageError
from relaylite.reuse.policies import FULL
from relaylite.sampling import Sampling

PROMPT = [70, 71, 72]


@pytest.fixture(params=["fake", "real"])
def ready(request: pytest.FixtureRequest) -> EngineLike:
    """An engine with a prompt in place."""
    live: LiveEngine | None = request.getfixturevalue("tiny") if request.param == "real" else None
    engine: EngineLike = live.engine if live else FakeEngine()
    engine.prefill(plan_of(FULL, PROMPT), lambda phase: None)
    return engine


@pytest.mark.parametrize("n", [0, 1, 20])
def test_log_probabilities_come_with_each_token_if_they_are_asked_for(n: int, ready: EngineLike) -> None:
    deltas = list(ready.generate(Sampling(max_tokens=5), n))
    assert deltas
    for delta in deltas:
        assert delta.logprob is not None and delta.logprob < 0 and len(delta.top) == n
        assert [logprob for _, logprob in delta.top] == sorted((logprob for _, logprob in delta.top), reverse=True)
        assert sum(math.exp(logprob) for _, logprob in delta.top) <= 1 + 1e-6
        assert dict(delta.top).get(delta.token, delta.logprob) == delta.logprob


def test_none_come_unless_they_are_asked_for(ready: EngineLike) -> None:
    assert {(delta.logprob, delta.top) for delta in ready.generate(Sampling(max_tokens=5))} == {(None, ())}


def test_the_stop_string_is_named(ready: EngineLike) -> None:
    plain = "".join(delta.text for delta in ready.generate(Sampling(max_tokens=8)))
    ready.prefill(plan_of(FULL, PROMPT), lambda phase: None)
    writer = ready.generate(Sampling(max_tokens=8, stop=("never said", plain[-1])))
    text = "".join(delta.text for delta in writer)
    assert (writer.stop, writer.finish_reason, text) == (plain[-1], "stop", plain[: plain.index(plain[-1])])


def test_an_answer_that_no_stop_string_ended_names_none(ready: EngineLike) -> None:
    writer = ready.generate(Sampling(max_tokens=3, stop=("never said",)))
    assert len(list(writer)) == 3
    assert (writer.stop, writer.finish_reason) == ("", "length")


@pytest.mark.parametrize(
    ("sampling", "n"),
    [({}, -1), ({}, 21), ({"logit_bias": ((10**6, 1),)}, None), ({"logit_bias": tuple((token, -100) for token in range(400))}, None)],
)
def test_what_cannot_be_is_refused_and_nothing_is_lost(sampling: dict[str, Any], n: int | None, ready: EngineLike) -> None:
    with pytest.raises(UsageError):
        ready.generate(Sampling(max_tokens=1, **sampling), n)
    assert len(list(ready.generate(Sampling(max_tokens=1)))) == 1
