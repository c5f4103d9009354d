"""`Chain`: agents that answer in turn, and the conversation that grows from it.

Decides who answers next. A turn itself is `turn.py`'s, what an agent is asked `agent_prompts.py`'s. One run at a time uses the engine;
`cancel` may come from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from functools import partial
from typing import Any, TypeVar

from relaylite.chain import notices, transcript
from relaylite.chain.agent_prompts import AgentPrompts
from relaylite.chain.agents import Agent, choose_agents, unanswered
from relaylite.chain.attachments import Attachment
from relaylite.chain.conversation import Conversation, Round, begun_in, unfinished
from relaylite.chain.result import ChainResult, Comparison
from relaylite.chain.role_sampling import check_chosen, in_force
from relaylite.chain.session import Session
from relaylite.chain.settling import Settling, settle
from relaylite.chain.turn import TurnRequest, TurnRun
from relaylite.errors import EngineClosed, RelayliteError, UsageError
from relaylite.events import ChainFinished, ChainStarted, Event, Notice, PrefillDone, Turn, TurnFinished
from relaylite.machine.resources import peak_resident_bytes
from relaylite.metrics import Stopwatch
from relaylite.reuse.policies import FULL, Policy, parse_policy
from relaylite.runs.earlier import Earlier
from relaylite.runs.runner import CLOSED_MEANWHILE, Run, Runner
from relaylite.sampling import Sampling

T = TypeVar("T")


class Chain:
    """A conversation with agents on one engine. `Relay.chain` makes it.

    Between runs, `agents`, `policy` and `sampling` (or some of its values: `chosen`) may be changed; an agent's own sampling values go
    before them. What was changed is kept with the conversation. `conversation`
    holds what was said; change it by `edit`, `retry` and `change`, which raise EngineBusy while a run goes on.
    `session`: where the conversation is kept, when a message begins, after every answer, and after every change; None: nowhere.
    """

    def __init__(
        self,
        runner: Runner,
        agents: Iterable[str | Agent],
        policy: str | Policy,
        told: Mapping[str, Any],
        settle_after_s: float | None = None,
    ) -> None:
        """`told`: sampling values that were given; what is not, each role has its own for (`role_sampling`)."""
        self._runner = runner
        self._settling = Settling(runner, self._agent_prompts, settle_after_s)
        self._fingerprint = transcript.tokenizer_fingerprint(runner.tokenizer)
        self._run = Run()
        self._notices: list[str] = []
        self._wall_ms = 0.0
        self.conversation = Conversation()
        self.session: Session | None = None
        self.agents = agents
        self.policy = policy
        self._told = dict(told)
        self.chosen = {}

    @property
    def sampling(self) -> Sampling:
        """The values that were given, and the plain ones of `Sampling` for the rest. If it is set, all of them are given."""
        return Sampling().merged(self._in_force)

    @sampling.setter
    def sampling(self, sampling: Sampling) -> None:
        self.chosen = sampling.values()

    @property
    def chosen(self) -> Mapping[str, Any]:
        """Sampling values, by name, that go before those that the chain was made with; None takes such a value away.

        Raises UsageError if it is set to what `Sampling` refuses.
        """
        return self._chosen

    @chosen.setter
    def chosen(self, chosen: Mapping[str, Any]) -> None:
        check_chosen(chosen)
        self._chosen = dict(chosen)

    @property
    def agents(self) -> tuple[Agent, ...]:
        """Who answers, in order. May be set to names of known agents, too; raises UsageError for others, EngineBusy in a run."""
        return self._agents

    @agents.setter
    def agents(self, agents: Iterable[str | Agent]) -> None:
        self._runner.check_idle(self._run)
        self._agents = choose_agents(agents)

    @property
    def policy(self) -> Policy:
        """How answers are taken over. May be set to the name of a policy, too. A model that cannot relay runs with `prefix` instead."""
        return self._policy

    @policy.setter
    def policy(self, policy: str | Policy) -> None:
        self._policy = parse_policy(policy) if isinstance(policy, str) else policy

    @property
    def rounds(self) -> list[Round]:
        """All messages and their answers, the oldest first."""
        return self.conversation.rounds

    # running

    def run(self, task: str, *, files: Iterable[Attachment] = ()) -> ChainResult:
        """Let all agents answer `task`. Raises what `stream` raises; `result` then holds what was written."""
        is_finished = False
        with closing(self.stream(task, files=files)) as events:
            for event in events:
                is_finished = isinstance(event, ChainFinished)
        if not is_finished:
            raise EngineClosed(CLOSED_MEANWHILE)
        return self.result

    def stream(self, task: str, *, files: Iterable[Attachment] = (), stop_after: int | None = None) -> Generator[Event, None, None]:
        """The events of the agents' answers to `task` and `files`, in the order that `relaylite.events` gives.

        `stop_after`: the index of the agent that answers last, from 0; by default all answer. `resume` goes on behind it.
        The engine runs while an event is asked for. Closing the stream half read, or dropping it, stops the answer that is being written
        and keeps its text; so does `cancel`.

        Raises at once: UsageError for an empty task, if there is no agent `stop_after`, or if another process has the session open;
        ContextOverflow if some agent's prompt cannot fit; EngineBusy while another run is not read to its end; EngineClosed. Raised when
        an event is asked for: Cancelled after `cancel`, ContextOverflow if answers have filled the context, EngineClosed if the model is
        closed meanwhile, and what the engine raises.
        """
        self._runner.check_free()
        if not task.strip():
            raise UsageError("the task is empty; write what the agents shall do")
        round = Round(task, files=tuple(files))
        self._agent_prompts().check_fits(round)
        return self._begin(round, stop_after)

    def resume(self, stop_after: int | None = None) -> Generator[Event, None, None]:
        """Like `stream`, for the agents that have not answered the last message yet. Raises UsageError if there are none.

        An agent that was put between those that have answered does so in its place.
        """
        last = len(self.agents) - 1 if stop_after is None else stop_after
        if not self.rounds or not any(index <= last for index, _ in unanswered(self.agents, self.rounds[-1].names)):
            raise UsageError("there is nothing to resume: these agents have answered; send a message")
        return self._begin(self.rounds[-1], stop_after)

    def extend(self, round: int, index: int, stop_after: int | None = None) -> Generator[Event, None, None]:
        """Like `resume`, but first that answer goes on where it was cut. What followed it is left, as by `retry`.

        Raises UsageError if there is no such answer, if it was not cut, or if its agent is not in the chain any more.
        """
        begun = unfinished(self.conversation.answer(round, index), self._runner.tokenizer)
        self._agent_prompts().place_of(begun)
        return self._begin(self.rounds[round], stop_after, begun)

    def cancel(self) -> None:
        """Stop the run within a second; from any thread. Without a run it does nothing."""
        self._runner.cancel(self._run)

    @property
    def result(self) -> ChainResult:
        """The last round's answers so far, and what the last run cost."""
        return ChainResult(
            model=self._runner.info.name,
            policy=self._runner.effective(self.policy).label,
            turns=tuple(self.rounds[-1].turns) if self.rounds else (),
            wall_ms=self._wall_ms,
            peak_rss_mb=_peak_rss_mb(),
            notices=tuple(self._notices),
        )

    # changing the conversation

    def retry(self, index: int | None = None, round: int | None = None) -> str:
        """Go back to before a round, or only to before its answer at `index` (`resume` writes it anew); its message.

        By default it is the last round. What is left can be had again: `change`. What is written from then on is sampled with another
        seed. Raises UsageError if there is no such round or answer, EngineBusy in a run.
        """
        return self.change(lambda conversation: conversation.take_back(index, round))

    def edit(self, round: int, index: int, text: str) -> None:
        """Replace an answer by `text`, tokenized anew: where its tokens differ, nothing is relayed. Later answers stay as they are.

        `round` and `index` count from 0. Raises UsageError if there is no such answer or the text is empty, EngineBusy in a run.
        """
        self.change(lambda conversation: conversation.edit(round, index, text, self._runner.tokenizer))

    def change(self, change: Callable[[Conversation], T]) -> T:
        """Do what `change` does with the conversation, such as `Conversation.undo`, and keep it; what that returned.

        Raises EngineBusy in a run, UsageError if another process has the session open, and RelayliteError if it cannot be kept.
        """
        self._runner.check_idle(self._run)
        if self.session is not None:
            self.session.check_writable()
        changed = change(self.conversation)
        if trouble := self._keep():
            raise RelayliteError(trouble)
        return changed

    def measure_full(self, round: int, index: int) -> float:
        """Milliseconds to the first token of that answer's prompt when all of it is computed. Nothing of it is kept.

        Raises UsageError if there is no such answer, Cancelled after `cancel`, EngineBusy, EngineClosed.
        """
        turn = self.conversation.answer(round, index)
        prompt = self._agent_prompts().answered(turn)
        request = TurnRequest(turn.agent, index, index, round, prompt, Sampling(max_tokens=1), FULL)
        run = self._run = Run()
        with self._settling.put_off(), self._runner.lend(run):
            [done] = [event for event in TurnRun(self._runner, run, request).events() if isinstance(event, PrefillDone)]
        return done.metrics.ttft_ms

    def compare(
        self, round: int, index: int, policy: str | Policy = FULL, on_event: Callable[[Event], None] = lambda _: None
    ) -> Comparison:
        """Let that answer's agent answer the same prompt once more under `policy`, and compare. Nothing of it is kept.

        It may take over what was known before the answer was written, and uses the agent's sampling as it is now, with the same seed.
        `on_event` is given the events of the turn. Raises UsageError if there is no such answer, if it was edited, or if its agent is not
        in the chain any more; Cancelled after `cancel`, EngineBusy, EngineClosed, and what the engine raises.
        """
        self._runner.check_free()
        turn, prompts = self.conversation.answer(round, index), self._agent_prompts()
        if turn.was_edited:
            raise UsageError(f"{turn.agent}'s answer was edited: there is nothing that another policy could be compared with")
        other = self._runner.effective(parse_policy(policy) if isinstance(policy, str) else policy)
        prompt, sampling = prompts.answered(turn), prompts.sampling_again(turn)
        matcher = Earlier(self._runner.matcher, prompts.texts_before(turn))
        request = TurnRequest(
            turn.agent, prompts.place_of(turn), index, round, prompt, sampling, other, begun_in(turn, prompt), matcher=matcher
        )
        run, answers = Run(), list[Turn]()
        self._run = run
        with self._settling.put_off(), self._runner.lend(run), self._runner.store.uncounted():
            for event in TurnRun(self._runner, run, request).events():
                answers += [event.turn] if isinstance(event, TurnFinished) else []
                on_event(event)
        return Comparison.of(turn, answers[0], other.label, self._runner.tokenizer.piece)

    def settle(self) -> int:
        """Compute exactly what was taken over with loss of each agent's earlier messages; the number of tokens computed.

        Any run that begins ends it. Raises EngineBusy while a run goes on, EngineClosed.
        """
        return settle(self._runner, self._agent_prompts().earlier_messages())

    def to_dict(self) -> dict[str, Any]:
        """The conversation as plain values for JSON; `Relay.chain_from_dict` reads them back."""
        saved = transcript.Transcript(self.agents, self.policy.label, self.conversation, self.chosen)
        return transcript.to_dict(saved, self._runner.info.name, self._fingerprint)

    @classmethod
    def from_dict(cls, runner: Runner, data: object, told: Mapping[str, Any], settle_after_s: float | None = None) -> Chain:
        """Raises UsageError in one line if `data` is not what `to_dict` gives."""
        saved = transcript.from_dict(data, runner.tokenizer)
        chain = cls(runner, saved.agents, saved.policy, told, settle_after_s)
        chain.conversation, chain.chosen = saved.conversation, saved.chosen
        chain._settling.start()
        return chain

    # inside

    @property
    def _in_force(self) -> Mapping[str, Any]:
        return in_force(self._told, self._chosen)

    def _agent_prompts(self) -> AgentPrompts:
        return AgentPrompts(self.conversation, self.agents, self._in_force, self._runner.prompt_builder, self._runner.info.n_ctx)

    def _begin(self, round: Round, stop_after: int | None, begun: Turn | None = None) -> Generator[Event, None, None]:
        if stop_after is not None and not 0 <= stop_after < len(self.agents):
            raise UsageError(f"cannot stop after agent {stop_after}: the chain has agents 0 to {len(self.agents) - 1}")
        self._runner.check_free()
        if self.session is not None:
            self.session.check_writable()
        run = self._run = Run()
        events = self._events(run, round, len(self.agents) if stop_after is None else stop_after + 1, begun)
        run.driven_by(events)
        return events

    def _events(self, run: Run, round: Round, end: int, begun: Turn | None) -> Generator[Event, None, None]:
        """Of the agents before `end`, those that have not answered `round` yet do so, one after the other; `begun` goes on."""

        def said(text: str, *, is_minor: bool = False) -> list[Notice]:
            self._notices += [text] if text else []
            return [Notice(text, is_minor)] if text else []

        wall = Stopwatch()
        with self._settling.put_off(), self._runner.lend(run):
            self._run, self._notices = run, []
            if begun is not None:
                self.conversation.take_back(begun.index, begun.round)
                round = self.rounds[-1]
            number = self.conversation.begin(round)
            info, prompts, policy = self._runner.info, self._agent_prompts(), self._runner.effective(self.policy)
            trouble, goes_on_at = self._keep(), prompts.place_of(begun) if begun is not None else None
            try:
                yield ChainStarted(tuple(agent.name for agent in self.agents), policy.label, number)
                for text in (*self._runner.take_warnings(), notices.relaying_is_off(info.relay_refusal, self.policy), trouble):
                    yield from said(text)
                for index, at in [place for place in unanswered(self.agents, round.names) if place[0] < end]:
                    run.raise_if_cancelled()
                    rendering = Stopwatch()
                    goes_on = begun if index == goes_on_at else None
                    prompt, n_dropped = prompts.fitting(index, goes_on)
                    name, sampling = self.agents[index].name, prompts.sampling_at(index, at)
                    request = TurnRequest(name, index, at, number, prompt, sampling, policy, goes_on, rendering.ms())
                    if n_dropped > self.conversation.n_dropped:
                        self.conversation.n_dropped = n_dropped
                        yield from said(notices.rounds_no_longer_read(n_dropped, info.n_ctx))
                    with closing(TurnRun(self._runner, run, request, self.conversation.add).events()) as events:
                        for event in events:
                            if isinstance(event, Notice):
                                self._notices.append(event.text)
                            if isinstance(event, TurnFinished):
                                yield from said(self._keep())
                            yield event
                            if isinstance(event, PrefillDone) and index + 1 < end:
                                self._runner.read_ahead(partial(prompts.of, index + 1))
                yield from said(notices.why_nothing_relayed(round.turns, policy), is_minor=True)
            finally:
                self._wall_ms = wall.ms()
                if begun is not None and begun.agent not in round.names[begun.index :]:
                    self.conversation.undo()  # it did not come to go on
                self._keep()  # an answer that was stopped half way
        yield ChainFinished(tuple(round.turns), self._wall_ms, _peak_rss_mb())

    def _keep(self) -> str:
        """Keep the conversation as it is now; what went wrong, "" if nothing did."""
        try:
            if self.session is not None:
                self.session.keep(self.to_dict())
        except RelayliteError as error:
            return str(error)
        return ""


def _peak_rss_mb() -> float:
    return peak_resident_bytes() / 1e6
