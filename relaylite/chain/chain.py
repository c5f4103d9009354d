"""`Chain`: agents that answer in turn, and the conversation that grows from it.

Decides who answers next and what fits the context; a turn itself is `turn.py`'s, an agent's view of the conversation
`conversation.py`'s. One run at a time uses the engine; `cancel` may come from any thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from relaylite.chain import transcript
from relaylite.chain.agents import Agent, choose_agents
from relaylite.chain.attachments import Attachment
from relaylite.chain.conversation import Round, messages_for
from relaylite.chain.notices import why_nothing_relayed
from relaylite.chain.result import ChainResult
from relaylite.chain.runner import RowStore, Run, Runner, stream_of
from relaylite.chain.settling import Settling, settle
from relaylite.chain.turn import TurnRequest, TurnRun
from relaylite.errors import Cancelled, ContextOverflow, EngineBusy, EngineClosed, RelayliteError, UsageError
from relaylite.events import ChainFinished, ChainStarted, Event, Notice, PrefillDone, Turn, TurnFinished
from relaylite.machine.resources import peak_resident_bytes
from relaylite.prompt.builder import Prompt
from relaylite.prompt.messages import Text
from relaylite.reuse.policies import FULL, PREFIX, Policy, parse_policy
from relaylite.reuse.rows import Tokens
from relaylite.sampling import Sampling

ROOM_AFTER_DROP = 0.75  # rounds go until a prompt fills no more than this of its room, so that not every round moves all others
_CLOSED_MEANWHILE = "the model was closed while it was writing; what was written until then is kept"


class Chain:
    """A conversation with agents on one engine. Made by `Relay.chain`.

    `agents`, `policy` and `sampling` (before which an agent's own values go) may be changed between runs.
    `rounds` is the conversation; change it through `edit` and `retry`. The first `n_dropped` rounds are no longer read.
    """

    def __init__(
        self,
        runner: Runner,
        agents: Iterable[str | Agent],
        policy: str | Policy,
        sampling: Sampling,
        settle_after_s: float | None = None,
    ) -> None:
        self._runner = runner
        self._settling = Settling(runner, self._pasts, settle_after_s)
        self._fingerprint = transcript.tokenizer_fingerprint(runner.tokenizer)
        self._run = Run()
        self._notices: list[str] = []
        self._wall_ms = 0.0
        self.rounds: list[Round] = []
        self.n_dropped = 0
        self.agents = agents
        self.policy = policy
        self.sampling = sampling

    @property
    def agents(self) -> tuple[Agent, ...]:
        return self._agents

    @agents.setter
    def agents(self, agents: Iterable[str | Agent]) -> None:
        self._check_idle()
        self._agents = choose_agents(agents)

    @property
    def policy(self) -> Policy:
        return self._policy

    @policy.setter
    def policy(self, policy: str | Policy) -> None:
        self._policy = parse_policy(policy) if isinstance(policy, str) else policy

    @property
    def effective_policy(self) -> Policy:
        """What runs: `prefix` where the model cannot relay."""
        return PREFIX if self.policy.use_spans and self._runner.engine.info.relay_refusal else self.policy

    # running

    def run(self, task: str, *, files: Iterable[Attachment] = ()) -> ChainResult:
        """Let all agents answer `task`. Raises what `stream` raises; `result` then holds what was written."""
        is_finished = False
        with closing(self.stream(task, files=files)) as events:
            for event in events:
                is_finished = isinstance(event, ChainFinished)
        if not is_finished:
            raise EngineClosed(_CLOSED_MEANWHILE)
        return self.result

    def stream(self, task: str, *, files: Iterable[Attachment] = (), stop_after: int | None = None) -> Generator[Event, None, None]:
        """Events of the agents' answers to `task` and `files`, up to the agent at `stop_after` if that is given.

        Raises at once UsageError for an empty task, ContextOverflow if some agent's prompt cannot fit, EngineBusy while another run
        is not read to its end, EngineClosed. The iterator raises Cancelled after `cancel()`. Closing it half read cancels the turn.
        """
        self._runner.check_free()
        if not task.strip():
            raise UsageError("the task is empty; write what the agents shall do")
        round = Round(task, files=tuple(files))
        self._check_fits(round)
        return self._begin(round, stop_after)

    def resume(self, stop_after: int | None = None) -> Generator[Event, None, None]:
        """Go on with the agents that have not answered the last message yet. Raises UsageError if there is none."""
        if not self.rounds or len(self.rounds[-1].turns) >= (len(self.agents) if stop_after is None else stop_after + 1):
            raise UsageError("there is nothing to resume: these agents have answered; send a message")
        return self._begin(self.rounds[-1], stop_after)

    def cancel(self) -> None:
        """Stop the run within a second; from any thread. Without a run it does nothing."""
        self._runner.cancel(self._run)

    @property
    def result(self) -> ChainResult:
        """The last round's answers so far, and what the last run cost."""
        return ChainResult(
            model=self._runner.engine.info.name,
            policy=self.effective_policy.label,
            turns=tuple(self.rounds[-1].turns) if self.rounds else (),
            wall_ms=self._wall_ms,
            peak_rss_mb=_peak_rss_mb(),
            notices=tuple(self._notices),
        )

    # changing the conversation

    def retry(self, index: int | None = None) -> str:
        """Drop the last round, or only its answers from the agent at `index` on (`resume` writes them anew); its message."""
        self._check_idle()
        if not self.rounds:
            raise UsageError("there is no round to retry yet")
        last = self.rounds[-1]
        if index is None:
            self.rounds.pop()
            self.n_dropped = min(self.n_dropped, len(self.rounds))
        elif 0 <= index <= len(last.turns):
            del last.turns[index:]
        else:
            raise UsageError(f"cannot retry from agent {index}: {len(last.turns)} agents have answered")
        return last.task

    def edit(self, round: int, index: int, text: str) -> None:
        """Replace an answer by `text`, tokenized anew: where its tokens differ, nothing is relayed. Later answers stay as they are."""
        self._check_idle()
        old = self._turn_at(round, index)
        if not text.strip():
            raise UsageError("an answer cannot be empty; write something, or retry the agent")
        edited = Text(text, "answer", old.agent)  # refuses what is no text
        tokens = tuple(self._runner.tokenizer.tokenize(edited.text, parse_special=False))
        self.rounds[round].turns[index] = replace(old, text=text, tokens=tokens, was_edited=True)

    def measure_full(self, round: int, index: int) -> float:
        """Milliseconds to the first token of that turn's prompt when all of it is computed. Nothing of it is kept.

        Raises Cancelled after `cancel()`.
        """
        turn = self._turn_at(round, index)
        tokens = [token for part in turn.parts for token in part.tokens]
        prompt = Prompt(np.array(tokens, np.int32), turn.parts) if tokens else self._prompt_of(turn)
        request = TurnRequest(turn.agent, index, round, prompt, Sampling(max_tokens=1), FULL, keeps_rows=False)
        run = self._run = Run()
        try:
            with self._runner.lend(run):
                [done] = [event for event in TurnRun(self._runner, run, request).events() if isinstance(event, PrefillDone)]
        finally:
            self._settling.start()  # this ended it, or came before it
        return done.metrics.ttft_ms

    def settle(self) -> int:
        """Compute exactly what each agent's past holds with loss; the number of tokens computed. Any run that begins ends it.

        Raises EngineBusy while a run goes on.
        """
        return settle(self._runner, self._pasts())

    def to_dict(self) -> dict[str, Any]:
        """The conversation as plain values for JSON; `Relay.chain_from_dict` reads them back."""
        saved = transcript.Transcript(self.agents, self.policy.label, self.rounds, self.n_dropped)
        return transcript.to_dict(saved, self._runner.engine.info.name, self._fingerprint)

    @classmethod
    def from_dict(cls, runner: Runner, data: object, sampling: Sampling, settle_after_s: float | None = None) -> Chain:
        """Raises UsageError in one line if `data` is not what `to_dict` gives."""
        saved = transcript.from_dict(data, runner.tokenizer)
        chain = cls(runner, saved.agents, saved.policy, sampling, settle_after_s)
        chain.rounds, chain.n_dropped = saved.rounds, saved.n_dropped
        chain._settling.start()
        return chain

    # inside

    def _begin(self, round: Round, stop_after: int | None) -> Generator[Event, None, None]:
        if stop_after is not None and not 0 <= stop_after < len(self.agents):
            raise UsageError(f"cannot stop after agent {stop_after}: the chain has agents 0 to {len(self.agents) - 1}")
        self._runner.check_free()
        end = len(self.agents) if stop_after is None else stop_after + 1
        run = self._run = Run()
        events = self._events(run, round, end)
        stream_of(run, events)
        return events

    def _events(self, run: Run, round: Round, end: int) -> Generator[Event, None, None]:
        started = time.perf_counter()
        self._settling.stop()
        with self._runner.lend(run):
            self._run = run
            if not self.rounds or self.rounds[-1] is not round:
                self.rounds.append(round)
            self._notices = []
            try:
                with closing(self._answers(run, round, end)) as answers:
                    for event in answers:
                        if isinstance(event, Notice):
                            self._notices.append(event.text)
                        yield event
            except Cancelled as error:
                if self._runner.is_closed:
                    raise EngineClosed(_CLOSED_MEANWHILE) from error
                raise
            finally:
                self._wall_ms = (time.perf_counter() - started) * 1000
                self._settling.start()
        yield ChainFinished(tuple(round.turns), self._wall_ms, _peak_rss_mb())

    def _answers(self, run: Run, round: Round, end: int) -> Generator[Event, None, None]:
        number = len(self.rounds) - 1
        yield ChainStarted(tuple(agent.name for agent in self.agents), self.effective_policy.label, number)
        for warning in self._runner.take_warnings():
            yield Notice(warning)
        refusal = self._runner.engine.info.relay_refusal
        if refusal and self.policy.use_spans:
            yield Notice(f"relaying is off for this model: {refusal}; running with policy prefix")
        for index in range(len(round.turns), end):
            run.raise_if_cancelled()
            for event in self._answer(run, round, number, index):
                yield event
                if isinstance(event, PrefillDone) and index + 1 < end and self._runner.store.has_disk:
                    self._prefetch(index + 1)
        if reason := why_nothing_relayed(round.turns, self.effective_policy):
            yield Notice(reason, is_minor=True)

    def _prefetch(self, index: int) -> None:
        """While an agent writes, what is on disk of the next one's past is read: loading hides behind writing."""
        with suppress(RelayliteError):  # its turn will say what is wrong
            tokens = self._render(index, self.rounds[self.n_dropped :]).tokens  # not in the thread: the model may be closed meanwhile
            threading.Thread(target=_read_ahead, args=(self._runner.store, tokens), daemon=True).start()

    def _answer(self, run: Run, round: Round, number: int, index: int) -> Iterator[Event]:
        started = time.perf_counter()
        prompt, n_dropped = self._fitting(index)
        render_ms = (time.perf_counter() - started) * 1000
        if n_dropped > self.n_dropped:
            self.n_dropped = n_dropped
            yield Notice(f"the conversation outgrew the context of {self._n_ctx}: rounds before round {n_dropped + 1} are no longer read")
        name = self.agents[index].name
        request = TurnRequest(name, index, number, prompt, self._sampling(index), self.effective_policy, render_ms)
        turn_run = TurnRun(self._runner, run, request)
        cancelled: Cancelled | None = None
        try:
            yield from turn_run.events()
        except Cancelled as error:
            cancelled = error
        finally:
            if turn_run.turn is not None:
                round.turns.append(turn_run.turn)
        if turn_run.turn is not None:
            yield TurnFinished(turn_run.turn)
        if cancelled is not None:
            raise cancelled

    @property
    def _n_ctx(self) -> int:
        return self._runner.engine.info.n_ctx

    def _sampling(self, index: int) -> Sampling:
        return self.sampling.merged(self.agents[index].sampling)

    def _render(self, index: int, rounds: list[Round]) -> Prompt:
        return self._runner.prompts.build(messages_for(self.agents, index, rounds))

    def _prompt_of(self, turn: Turn) -> Prompt:
        """What a loaded turn answered, rendered again."""
        if turn.index >= len(self.agents) or self.agents[turn.index].name != turn.agent:
            raise UsageError(f"the prompt of {turn.agent} is not known any more: the chain has other agents now")
        return self._render(turn.index, self.rounds[min(self.n_dropped, turn.round) : turn.round + 1])

    def _pasts(self) -> Iterator[Tokens]:
        """For each agent the tokens that its next prompt will start with, whatever the next message is."""
        rounds = [replace(round, turns=list(round.turns)) for round in self.rounds[self.n_dropped :]]
        for index in range(len(self.agents)):
            prompt = self._render(index, [*rounds, Round("?")])
            last_user = max(at for at, part in enumerate(prompt.parts) if part.kind == "user")
            yield prompt.tokens[: sum(len(part.tokens) for part in prompt.parts[:last_user])]

    def _fitting(self, index: int) -> tuple[Prompt, int]:
        """The prompt of the agent at `index`, and how many rounds had to be dropped for it. Raises ContextOverflow."""
        room, first = self._room(index), self.n_dropped
        is_open_ended = self._sampling(index).max_tokens < 0
        prompt = self._render(index, self.rounds[first:])
        if len(prompt) > room * (ROOM_AFTER_DROP if is_open_ended else 1):
            while len(prompt) > room * ROOM_AFTER_DROP and first < len(self.rounds) - 1:
                first += 1
                prompt = self._render(index, self.rounds[first:])
        self._check_room(index, len(prompt))
        return prompt, first

    def _check_fits(self, round: Round) -> None:
        """Before anything runs: every agent's prompt without past and without answers, which can only grow."""
        for index in range(len(self.agents)):
            self._check_room(index, len(self._render(index, [round])))

    def _room(self, index: int) -> int:
        """Tokens that the prompt may have, so that the answer still fits."""
        max_tokens = self._sampling(index).max_tokens
        return self._n_ctx - max(max_tokens, 1)

    def _check_room(self, index: int, n_prompt: int) -> None:
        if n_prompt > (room := self._room(index)):
            raise ContextOverflow(
                f"agent {self.agents[index].name}: its prompt of {n_prompt} tokens and {self._n_ctx - room} tokens of answer do not fit "
                f"the context of {self._n_ctx}; shorten the task, lower max tokens, or open the model with a larger context"
            )

    def _check_idle(self) -> None:
        if self._runner.is_running(self._run):
            raise EngineBusy("the chain is writing; cancel it or read it to its end first")

    def _turn_at(self, round: int, index: int) -> Turn:
        if not 0 <= round < len(self.rounds) or not 0 <= index < len(self.rounds[round].turns):
            raise UsageError(f"there is no answer {index} in round {round}")
        return self.rounds[round].turns[index]


def _read_ahead(store: RowStore, tokens: Tokens) -> None:
    with suppress(RuntimeError):  # Python is going down and starts no more threads
        store.prefetch(tokens)


def _peak_rss_mb() -> float:
    return peak_resident_bytes() / 1e6
