"""Any order of sending, stopping, failing, editing, retrying and going on leaves a chain whose next answer is right."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.fakes import FakeEngine

from relaylite import Agent, Cancelled, ContextOverflow, Conversation, NativeError, Relay, UsageError
from relaylite.events import ChainFinished, Event, TextDelta, TurnFinished

AGENTS = (
    Agent("plan", "Make a plan."),
    Agent("code", "Write it."),
    Agent("plan", "Make a plan."),
    Agent("last", "Say it.", reads="previous"),
)
WORDS = st.text(st.sampled_from("abc <|im_end|>é🙂\n"), min_size=1, max_size=60).filter(str.strip)


class ChainPaths(RuleBasedStateMachine):
    """A chain of up to four agents in a context that is soon too small, on the engine that checks every row it places."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = FakeEngine(n_ctx=700)
        self.relay = Relay(engine=self.engine, policy="naive", store_bytes=10**7, sampling={"max_tokens": 120})
        self.chain = self.relay.chain(AGENTS[:2])

    def read(self, begin: Callable[[], Iterable[Event]], until: Callable[[Event], bool] = lambda _: False) -> None:
        """Read events to the end, or close the stream at the first one that `until` says."""
        stream = None
        try:
            stream = begin()
            for event in stream:
                if isinstance(event, TurnFinished):
                    assert self.chain.rounds[-1].turns[event.turn.index] is event.turn
                if until(event):
                    break
            else:
                assert isinstance(event, ChainFinished)
        except (Cancelled, ContextOverflow, NativeError):
            pass
        finally:
            if stream is not None:
                stream.close()  # type: ignore[attr-defined]

    @rule(task=WORDS, answers=st.lists(WORDS, max_size=4))
    def send(self, task: str, answers: list[str]) -> None:
        self.engine.enqueue(*answers)
        self.read(lambda: self.chain.stream(task))

    @rule(task=WORDS, index=st.integers(0, 1))
    def send_and_pause(self, task: str, index: int) -> None:
        self.read(lambda: self.chain.stream(task, stop_after=min(index, len(self.chain.agents) - 1)))

    @rule(task=WORDS, n=st.integers(1, 9), cancels=st.booleans())
    def stop_in_the_middle(self, task: str, n: int, cancels: bool) -> None:
        def at_nth_token(event: Event) -> bool:
            if isinstance(event, TextDelta) and event.n_tokens >= n:
                if not cancels:
                    return True
                self.chain.cancel()
            return False

        self.read(lambda: self.chain.stream(task), at_nth_token)

    @rule(task=WORDS, where=st.sampled_from(["prefill", "generate", "harvest"]), n=st.integers(0, 5))
    def fail(self, task: str, where: str, n: int) -> None:
        self.engine.fail(where, NativeError("scripted"), after_tokens=n)
        self.read(lambda: self.chain.stream(task))

    @precondition(lambda self: self.chain.rounds and len(self.chain.rounds[-1].turns) < len(self.chain.agents))
    @rule()
    def resume(self) -> None:
        self.read(self.chain.resume)

    @precondition(lambda self: self.chain.rounds)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, len(self.chain.rounds) - 1))
        index = data.draw(st.none() | st.integers(0, len(self.chain.rounds[number].turns)))
        assert self.chain.retry(index, number)

    @precondition(lambda self: self.chain.conversation.branches.left)
    @rule(n=st.integers(1, 2))
    def undo(self, n: int) -> None:
        before, n = self.said(), min(n, len(self.chain.conversation.branches.left))
        for change in [Conversation.undo] * n + [Conversation.redo] * n:
            self.chain.change(change)
        assert before == self.said()

    @precondition(lambda self: self.chain.conversation.branches.versions())
    @rule(data=st.data())
    def other_version(self, data: st.DataObject) -> None:
        """It can be chosen, and is the one that is shown then."""
        place, (_, n_versions) = data.draw(st.sampled_from(sorted(self.chain.conversation.branches.versions().items(), key=str)))
        chosen = data.draw(st.integers(0, n_versions - 1))
        self.chain.change(lambda conversation: conversation.choose(place, chosen))
        assert self.chain.conversation.branches.versions()[place] == (chosen, n_versions)

    def said(self) -> list[list[str]]:
        return [[round.task, *(f"{id(turn)}" for turn in round.turns)] for round in self.chain.rounds]

    @precondition(lambda self: any(turn.finish_reason != "stop" for round in self.chain.rounds for turn in round.turns))
    @rule(data=st.data())
    def extend(self, data: st.DataObject) -> None:
        cut = [turn for round in self.chain.rounds for turn in round.turns if turn.finish_reason != "stop"]
        turn = data.draw(st.sampled_from(cut))
        if turn.agent in [agent.name for agent in self.chain.agents]:
            with suppress(UsageError):  # its agent stands before others that have answered
                self.read(lambda: self.chain.extend(turn.round, turn.index))

    @precondition(lambda self: any(round.turns for round in self.chain.rounds))
    @rule(data=st.data(), text=WORDS)
    def edit(self, data: st.DataObject, text: str) -> None:
        number = data.draw(st.sampled_from([i for i, round in enumerate(self.chain.rounds) if round.turns]))
        self.chain.edit(number, data.draw(st.integers(0, len(self.chain.rounds[number].turns) - 1)), text)

    @rule(n=st.integers(1, 4), policy=st.sampled_from(["full", "prefix", "naive", "relay"]))
    def change(self, n: int, policy: str) -> None:
        self.chain.agents, self.chain.policy = AGENTS[:n], policy

    @rule()
    def settle(self) -> None:
        self.chain.settle()

    @rule()
    def save_and_load(self) -> None:
        self.chain = self.relay.chain_from_dict(json.loads(json.dumps(self.chain.to_dict())))

    @invariant()
    def what_stands_in_the_engine_is_right(self) -> None:
        self.engine.verify()
        assert not self.engine.in_prefill.is_set() and not self.engine.in_generate.is_set()
        if self.engine.plans:  # what is said to be exact is exact
            live = self.engine.harvest("")
            assert self.engine.exact_rows() >= live.n_exact

    @invariant()
    def turns_stand_where_they_say(self) -> None:
        for number, round in enumerate(self.chain.rounds):
            for index, turn in enumerate(round.turns):
                assert (turn.index, turn.round) == (index, number)
                assert b"".join(map(self.relay.piece, turn.tokens)).decode("utf-8", "ignore") == turn.text

    def teardown(self) -> None:
        self.engine._failures.clear()
        self.chain.agents = AGENTS[:1]
        self.chain.run("At last.")
        self.relay.close()


ChainPaths.TestCase.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
TestChainPaths = ChainPaths.TestCase
