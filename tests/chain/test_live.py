"""Chains on real models: what the scripted engine promises holds with llama.cpp behind it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from support.tiny_models import write_model

from relaylite import Agent, Cancelled, EngineBusy, EngineClosed, Relay, Turn
from relaylite.chain.chain import Chain
from relaylite.events import Phase, TextDelta
from relaylite.metrics import CellMap

AGENTS = [Agent("plan", "Make a short plan in three steps."), Agent("code", "Write Python code."), Agent("review", "Review the code.")]
TASK = "Write a function that merges two sorted lists."


@pytest.fixture(scope="module")
def relay(default_model_path: Path) -> Iterator[Relay]:
    with Relay(default_model_path, n_ctx=1024, sampling={"max_tokens": 48, "temperature": 0}, store_bytes=2 * 10**8) as relay:
        yield relay


@pytest.fixture(scope="module")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny.gguf", "llama", n_layer=4)


@pytest.fixture
def tiny(tiny_path: Path) -> Relay:
    return Relay(tiny_path, n_ctx=512, chat_template="chatml", sampling={"max_tokens": -1, "temperature": 1.0}, store_bytes=10**8)


def cells_of_answers(turn: Turn) -> list[np.ndarray]:
    """The columns of the cell map that belong to each answer in the turn's prompt."""
    assert turn.cells is not None
    ends = list(accumulate(len(part.tokens) for part in turn.parts))
    return [turn.cells.cells[:, end - len(part.tokens) : end] for part, end in zip(turn.parts, ends, strict=True) if part.kind == "answer"]


@pytest.mark.parametrize("policy", ["naive", "relay"])
def test_answers_are_relayed_whole_by_their_own_ids(relay: Relay, policy: str) -> None:
    task = f"{TASK} Call it merge_{policy}."  # of its own: what one policy left is prefix for the other
    plan, code, review = relay.chain(AGENTS, policy=policy).run(task).turns
    assert [part.tokens for part in review.parts if part.kind == "answer"] == [plan.tokens, code.tokens]
    for turn, n_answers in ((code, 1), (review, 2)):
        answers = cells_of_answers(turn)
        assert len(answers) == n_answers
        for cells in answers:  # an answer's last token may have no row yet
            assert np.isin(cells[:, :-1], (CellMap.REUSED, CellMap.RECOMPUTED)).all()
        assert (turn.metrics.recomputed_tokens > 0) == (policy == "relay")


def test_a_conversation_goes_on_from_its_exact_prefix(relay: Relay) -> None:
    chain = relay.chain(AGENTS[:1], policy="prefix")
    [first] = chain.run(TASK).turns
    [second] = chain.run("Now for three lists.").turns
    assert second.metrics.prefix_tokens >= first.metrics.prompt_tokens + len(first.tokens) - 1
    assert second.metrics.span_tokens == 0


def test_a_stopped_answer_is_the_start_of_the_whole_one(relay: Relay) -> None:
    whole = relay.chain(AGENTS[:1], policy="full").run(TASK).text
    chain = relay.chain(AGENTS[:1], policy="full")
    with pytest.raises(Cancelled):
        for event in chain.stream(TASK):
            if isinstance(event, TextDelta) and event.n_tokens >= 10:
                chain.cancel()
    [stopped] = chain.rounds[0].turns
    assert stopped.finish_reason == "cancelled"
    assert 0 < len(stopped.text) < len(whole) and whole.startswith(stopped.text)
    chain.retry()
    assert chain.run(TASK).text == whole


def test_a_half_read_stream_that_is_closed_keeps_the_ids_of_its_text(relay: Relay) -> None:
    chain = relay.chain(AGENTS[:1])
    stream = chain.stream(TASK)
    next(event for event in stream if isinstance(event, TextDelta) and event.n_tokens >= 5)
    with pytest.raises(EngineBusy):
        relay.chain(AGENTS).stream(TASK)
    stream.close()
    [turn] = chain.rounds[0].turns
    assert turn.tokens and b"".join(map(relay.piece, turn.tokens)).decode() == turn.text


def test_a_full_prefill_is_measured_on_the_same_prompt(relay: Relay) -> None:
    chain = relay.chain(AGENTS[:2], policy="naive")
    chain.run(TASK)
    assert chain.measure_full(0, 1) > chain.rounds[0].turns[1].metrics.ttft_ms > 0


def test_a_turn_is_compared_with_itself_and_with_a_full_prefill(relay: Relay) -> None:
    agents = [Agent("plan", "Make a plan in three steps, in your own words."), Agent("code", "Write the code in Python.")]
    chain = relay.chain(agents, policy="naive")
    chain.run(TASK)
    turn = chain.rounds[0].turns[1]
    assert turn.metrics.span_tokens
    again = chain.compare(0, 1, "naive")
    assert abs(again.other.metrics.span_tokens - turn.metrics.span_tokens) < 32  # spans are cut slightly otherwise
    assert again.n_alike >= 8
    full = chain.compare(0, 1)
    assert full.other.tokens == relay.chain_from_dict(chain.to_dict()).compare(0, 1).other.tokens
    assert full.other.metrics.prompt_reuse == 0 < full.turn.metrics.prompt_reuse
    assert full.turn.text[: full.n_alike] == full.other.text[: full.n_alike]
    assert full.differs_at is None or full.turn.tokens[: full.differs_at] == full.other.tokens[: full.differs_at]


def endless(relay: Relay) -> Chain:
    return relay.chain([Agent("plan", "Go on."), Agent("code", "Go on.")] * 50)


@pytest.mark.parametrize("moment", [Phase, TextDelta])
def test_closing_while_another_thread_runs_stops_it_first(tiny: Relay, moment: type) -> None:
    reached, errors = threading.Event(), []

    def read() -> None:
        try:
            for event in endless(tiny).stream("Go."):
                if isinstance(event, moment):
                    reached.set()
        except EngineClosed as error:
            errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    assert reached.wait(60)
    tiny.close()
    thread.join(60)
    assert not thread.is_alive() and len(errors) <= 1
    with pytest.raises(EngineClosed):
        tiny.chain(AGENTS)


def test_two_models_in_one_process_do_not_mix(tiny: Relay, relay: Relay) -> None:
    alone = relay.chain(AGENTS[:1], policy="full").run(TASK).text
    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(relay.chain(AGENTS[:1], policy="full").run(TASK).text))
    thread.start()
    stream = tiny.chain([Agent("plan", "Go on.")]).stream("Go.")
    for _ in stream:
        pass
    thread.join(120)
    tiny.close()
    assert results == [alone]
