"""Requests on a scripted engine: they queue, take turns, are cancelled, fail alone, and leave their rows."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.fakes import FakeEngine

from relaylite.api import Relay
from relaylite.completion.answer import CompletionEvent, Finished, Piece, Prefilled
from relaylite.completion.request import ChatMessage, CompletionRequest
from relaylite.completion.run import CompletionRun
from relaylite.completion.tenant import KnownPrompt, Tenant
from relaylite.errors import Cancelled, ContextOverflow, EngineBusy, EngineClosed, UsageError
from relaylite.reuse.policies import FULL, NAIVE, PREFIX
from relaylite.sampling import MAX_SEED, Sampling

LONG = "The quick brown fox jumps over the lazy dog, and then it sleeps under the old oak tree until the morning comes. "


@pytest.fixture
def relay(engine: FakeEngine) -> Iterator[Relay]:
    with Relay(engine=engine, policy="naive", store_bytes=10**8) as relay:
        yield relay
        engine.prefill_gate.set()
        engine.token_gate.set()


def asking(text: str, **values: object) -> CompletionRequest:
    return replace(CompletionRequest(messages=(ChatMessage("user", text),), policy=NAIVE), **values)  # type: ignore[arg-type]


def ran(relay: Relay, request: CompletionRequest) -> list[CompletionEvent]:
    return list(relay.completions.submit(request).events())


def answer_of(events: list[CompletionEvent]) -> Finished:
    (finished,) = [event for event in events if isinstance(event, Finished)]
    return finished


def eventually(is_so: object) -> None:
    deadline = time.monotonic() + 10
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_events_come_in_their_order(relay: Relay, engine: FakeEngine) -> None:
    engine.enqueue("Hello there.")
    first, *pieces, last = ran(relay, asking("Hi"))
    assert isinstance(first, Prefilled) and isinstance(last, Finished)
    assert "".join(piece.text for piece in pieces if isinstance(piece, Piece)) == "Hello there." == last.text
    assert engine.tokenizer.text(first.prompt).endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert last.finish_reason == "stop" and last.metrics.generated_tokens == len("Hello there.")


def test_an_answer_that_comes_back_as_text_is_taken_over_and_its_request_named(relay: Relay, engine: FakeEngine) -> None:
    engine.enqueue(LONG)
    ran(relay, asking("Write.", id="first"))
    reuse = answer_of(ran(relay, asking(f"Review this:\n{LONG}\nNow."))).reuse
    assert reuse.relayed_tokens >= 0.95 * len(LONG)
    assert {each.source for each in reuse.taken_over if each.kind == "span"} == {"first"}
    assert not reuse.missed


def test_the_reason_is_told_where_known_text_was_not_taken_over(relay: Relay, engine: FakeEngine) -> None:
    engine.enqueue(LONG)
    ran(relay, asking("Write.", id="first"))
    for policy in (FULL, PREFIX):
        (missed,) = answer_of(ran(relay, asking(f"{policy.name}:\n{LONG}", policy=policy))).reuse.missed
        assert missed.source == "first" and missed.reason.startswith("policy") and missed.n_tokens >= len(LONG) - 2
    relay._store.clear()
    (missed,) = answer_of(ran(relay, asking(f"again:\n{LONG}"))).reuse.missed
    assert missed.source == "first" and missed.reason.startswith("evicted") and missed.n_tokens >= len(LONG) - 2


def test_another_scope_gets_nothing(relay: Relay, engine: FakeEngine) -> None:
    engine.enqueue(LONG)
    ran(relay, asking("Write.", scope="a"))
    reuse = answer_of(ran(relay, asking(f"Write.{LONG}", scope="b"))).reuse
    assert reuse.taken_over == () and reuse.missed == ()
    assert answer_of(ran(relay, asking(f"Write.{LONG}", scope="a"))).reuse.taken_over


def test_a_short_request_does_not_wait_for_a_long_answer(relay: Relay, engine: FakeEngine) -> None:
    engine.token_delay = 0.002
    engine.enqueue("x" * 500, "short")
    long = relay.completions.submit(asking("long"))
    eventually(lambda: engine.in_generate.is_set())
    assert answer_of(ran(relay, asking("short one"))).text == "short"
    (state,) = [request for request in relay.completions.overview().requests if request.id == long.id]
    assert state.state == "writing" and 0 < state.generated_tokens < 500
    assert answer_of(list(long.events())).text == "x" * 500


def test_answers_of_many_clients_are_not_mixed(relay: Relay, engine: FakeEngine) -> None:
    texts = [f"answer number {i} " * 5 for i in range(12)]
    engine.enqueue(*texts)
    tickets = [relay.completions.submit(asking(f"{i}")) for i in range(12)]
    got: dict[int, str] = {}

    def read(i: int) -> None:
        got[i] = answer_of(list(tickets[i].events())).text

    threads = [threading.Thread(target=read, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got.values()) == sorted(texts)
    for state in relay.completions.overview().requests:
        assert state.state == "finished"
    assert relay.completions.overview().totals.requests == 12


@pytest.mark.parametrize("where", ["prefill", "decode", "queue"])
def test_a_cancelled_request_ends_at_once_and_the_others_go_on(relay: Relay, engine: FakeEngine, where: str) -> None:
    relay.completions._seats.limit = 1
    gate = engine.prefill_gate if where == "prefill" else engine.token_gate
    gate.clear()
    first = relay.completions.submit(asking("first"))
    eventually(lambda: (engine.in_prefill if where == "prefill" else engine.in_generate).is_set())
    second = relay.completions.submit(asking("second"))
    victim, other = (second, first) if where == "queue" else (first, second)
    began = time.monotonic()
    victim.cancel()
    with pytest.raises(Cancelled):
        list(victim.events())
    assert time.monotonic() - began < 0.5
    gate.set()
    assert answer_of(list(other.events())).text == engine.fallback


def test_a_cancel_in_the_moment_when_a_request_ends_is_not_the_next_ones(
    relay: Relay, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancel = CompletionRun.cancel

    def slow(run: CompletionRun) -> None:
        time.sleep(0.2)
        cancel(run)

    relay.completions._seats.limit = 1
    engine.token_delay = 0.01
    engine.enqueue("one", "x" * 60)
    first = relay.completions.submit(asking("first"))
    eventually(engine.in_generate.is_set)
    second = relay.completions.submit(asking("second"))
    monkeypatch.setattr(CompletionRun, "cancel", slow)
    first.cancel()
    assert answer_of(list(second.events())).text == "x" * 60


def test_a_request_whose_prompt_cannot_be_made_any_more_fails_alone(
    relay: Relay, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt, asked = Tenant.prompt, list[str]()

    def refuses(tenant: Tenant, request: CompletionRequest) -> KnownPrompt:
        asked.append(request.id)
        if request.id == "bad" and asked.count("bad") == 2:
            raise UsageError("the date has changed")
        return prompt(tenant, request)

    monkeypatch.setattr(Tenant, "prompt", refuses)
    relay.completions._seats.limit = 1
    engine.token_gate.clear()
    first = relay.completions.submit(asking("first"))  # once it has written, prompts that wait are made again
    eventually(lambda: engine.in_generate.is_set())
    good, bad = relay.completions.submit(asking("good")), relay.completions.submit(asking("bad", id="bad"))
    engine.token_gate.set()
    with pytest.raises(UsageError, match="date"):
        list(bad.events())
    assert answer_of(list(first.events())).text == answer_of(list(good.events())).text == engine.fallback


def test_nobody_waits_while_it_is_decided_who_is_next(relay: Relay, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    relay.completions._seats.limit = 1
    engine.token_gate.clear()
    relay.completions.submit(asking("first"))
    eventually(lambda: engine.in_generate.is_set())
    is_planning, may_go_on, plan = threading.Event(), threading.Event(), Tenant.plan

    def slow(*args: object) -> object:
        is_planning.set()
        may_go_on.wait(5)
        return plan(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(Tenant, "plan", slow)
    ticket, _ = relay.completions.submit(asking("x")), relay.completions.submit(asking("y"))
    engine.token_gate.set()
    assert is_planning.wait(5)
    began = time.monotonic()
    assert relay.completions.overview().n_queued == 2
    ticket.cancel()
    assert time.monotonic() - began < 1
    may_go_on.set()
    with pytest.raises(Cancelled):
        list(ticket.events())


def test_one_that_waits_for_nobody_makes_prompt_and_plan_once(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("prompt", "plan"):
        made = getattr(Tenant, name)
        monkeypatch.setattr(Tenant, name, lambda *args, name=name, made=made: (calls.append(name), made(*args))[1])
    ran(relay, asking("x"))
    assert calls == ["prompt", "plan"]


def test_a_reader_that_leaves_cancels_and_what_was_written_is_kept(relay: Relay, engine: FakeEngine) -> None:
    engine.token_delay = 0.002
    engine.enqueue(LONG)
    events = relay.completions.submit(asking("Write.", id="left")).events()
    for event in events:
        if isinstance(event, Piece) and relay.completions.overview().requests[-1].generated_tokens > 80:
            break
    events.close()  # type: ignore[attr-defined]
    eventually(lambda: relay.completions.overview().requests[-1].state == "cancelled")
    engine.token_delay = 0
    assert answer_of(ran(relay, asking(f"Go on with: {LONG[:80]}"))).reuse.relayed_tokens >= 70


def test_several_answers_compute_their_prompt_once(relay: Relay, engine: FakeEngine) -> None:
    engine.enqueue("one", "two", "three")
    events = ran(relay, asking("Say a number", n=3, policy=FULL, sampling=Sampling(seed=7)))
    assert [event.text for event in events if isinstance(event, Finished)] == ["one", "two", "three"]
    assert sum(isinstance(event, Prefilled) for event in events) == 1
    assert [sampling.seed for sampling in engine.samplings] == [7, 8, 9]
    assert sum(len(segment) for plan in engine.plans[1:] for segment in plan.segments if segment.rows is None) == 2


def test_the_seeds_of_several_answers_begin_again_at_the_end_of_the_range(relay: Relay, engine: FakeEngine) -> None:
    ran(relay, asking("Say a number", n=2, sampling=Sampling(seed=MAX_SEED)))
    assert [sampling.seed for sampling in engine.samplings] == [MAX_SEED, 0]


def test_requests_that_come_together_compute_what_they_share_once(relay: Relay, engine: FakeEngine) -> None:
    engine.prefill_gate.clear()
    tickets = [relay.completions.submit(asking(f"{LONG}{i}")) for i in range(4)]
    engine.prefill_gate.set()
    for ticket in tickets:
        list(ticket.events())
    totals = relay.completions.overview().totals
    assert totals.prompt_tokens > 4 * len(LONG) and totals.computed_tokens < 1.9 * len(LONG)


def test_rows_are_on_disk_soon_after_the_last_request(engine: FakeEngine, tmp_path: Path) -> None:
    with Relay(engine=engine, policy="naive", store_bytes=10**8, store_folder=tmp_path) as relay:
        engine.enqueue(LONG)
        ran(relay, asking("Write."))
        eventually(lambda: relay._store.stats().disk_bytes)


def test_a_failure_is_its_own_requests_alone(relay: Relay, engine: FakeEngine) -> None:
    engine.fail("generate", RuntimeError("broken"), after_tokens=2)
    with pytest.raises(RuntimeError, match="broken"):
        ran(relay, asking("first"))
    assert answer_of(ran(relay, asking("second"))).text == engine.fallback
    assert relay.completions.overview().totals.failed == 1


def test_what_cannot_be_is_refused_at_once(relay: Relay) -> None:
    with pytest.raises(ContextOverflow):
        relay.completions.submit(asking("x" * 5000))
    with pytest.raises(UsageError):
        CompletionRequest()
    with pytest.raises(UsageError, match="vocabulary"):
        relay.completions.submit(CompletionRequest(prompt=(1, 2, -3)))


def test_a_chain_and_completions_share_the_engine(relay: Relay, engine: FakeEngine) -> None:
    engine.token_gate.clear()
    events = relay.chain(["plan"]).stream("task")
    reader = threading.Thread(target=lambda: list(events))
    reader.start()
    eventually(lambda: engine.in_generate.is_set())
    ticket = relay.completions.submit(asking("waits"))
    time.sleep(0.05)
    assert relay.completions.overview().n_queued == 1
    engine.token_gate.set()
    reader.join()
    assert answer_of(list(ticket.events())).text == engine.fallback
    engine.token_gate.clear()
    ticket = relay.completions.submit(asking("runs"))
    eventually(lambda: engine.in_generate.is_set())
    with pytest.raises(EngineBusy):
        relay.chain(["plan"]).run("task")
    engine.token_gate.set()
    list(ticket.events())


def test_closing_ends_what_runs_and_what_waits(engine: FakeEngine) -> None:
    relay = Relay(engine=engine, policy="naive", store_bytes=10**8, n_parallel=1)
    engine.token_gate.clear()
    tickets = [relay.completions.submit(asking(f"{i}")) for i in range(3)]
    eventually(lambda: engine.in_generate.is_set())
    relay.close()
    for ticket in tickets:
        with pytest.raises(Cancelled):
            list(ticket.events())
    with pytest.raises(EngineClosed):
        relay.completions.submit(asking("late"))
    assert engine.is_closed and all(other.is_closed for other in engine.others)


def test_events_in_an_event_loop(relay: Relay, engine: FakeEngine) -> None:
    engine.enqueue("async answer")
    assert asyncio.run(relay.complete_async("Hi")).text == "async answer"

    async def leaves() -> None:
        engine.token_delay = 0.01
        events = relay.completions.submit(asking("x")).events_async()
        async for event in events:
            if isinstance(event, Piece):
                break
        await events.aclose()  # type: ignore[attr-defined]

    asyncio.run(leaves())
    eventually(lambda: relay.completions.overview().requests[-1].state == "cancelled")


def test_complete_takes_mappings_and_sampling(relay: Relay, engine: FakeEngine) -> None:
    done = relay.complete([{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}], max_tokens=3, policy="full")
    assert done.text == engine.fallback[:3] and done.finish_reason == "length"
    with pytest.raises(UsageError, match="role"):
        relay.complete([{"role": "robot", "content": "Hi"}])
    with pytest.raises(UsageError, match="max_token"):
        relay.complete("Hi", max_token=3)
