"""`Reading`: one downstream prompt with the rows that upstream agents left for it. `Upstream` has the agents write, once for all methods.

Answers are greedy, and their prompts are computed in full. The relayed rows are those from writing: one span for each answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from relaylite.bench.tasks import Task
from relaylite.chain.agents import Agent
from relaylite.chain.conversation import Round, messages_for
from relaylite.engine.engine import Engine
from relaylite.errors import UsageError
from relaylite.events import Turn
from relaylite.metrics import TurnMetrics
from relaylite.prompt.builder import Prompt, PromptBuilder
from relaylite.prompt.messages import Message
from relaylite.reuse.planner import make_plan
from relaylite.reuse.policies import FULL
from relaylite.reuse.profile import Profile
from relaylite.reuse.rows import Rows
from relaylite.sampling import Sampling
from relaylite.store import Store

LEAST_PIECE = 40  # tokens; a little more than the shortest span that policies take over
LEAST_JOINED = 2 * LEAST_PIECE
UNLIMITED = 1 << 40  # bytes; a store here holds the rows of one chain


@dataclass(frozen=True, slots=True)
class Written:
    """An agent's answer. `rows` begin with those of its prompt, `n_prompt` of them, and end with those of the answer."""

    agent: str
    tokens: tuple[int, ...]
    rows: Rows
    n_prompt: int

    @property
    def n_relayable(self) -> int:
        """Tokens of the answer that have rows; the last one sampled has none."""
        return min(len(self.tokens), len(self.rows) - self.n_prompt)

    def cut(self, n: int) -> Written:
        """The first `n` tokens of the answer."""
        return replace(self, tokens=self.tokens[:n])

    def answer_rows(self) -> Rows:
        """Rows of the answer alone."""
        return self.rows.slice(self.n_prompt, self.n_prompt + self.n_relayable)


@dataclass(frozen=True, slots=True)
class Reading:
    """What agent `agent`, number `index` of its chain from 0, reads of `task` and of the answers before it; and a store with their `rows`.

    `is_graded`: its answer is the one that counts as the chain's.
    """

    task: Task
    agent: str
    index: int
    is_graded: bool
    messages: Sequence[Message]
    rows: Sequence[Rows]
    store: Store


@dataclass(frozen=True, slots=True)
class ChainOptions:
    """`max_tokens` of each upstream answer. `is_warm`: the text before the first relayed answer was seen before, so its rows are known."""

    max_tokens: int = 256
    is_warm: bool = True


class Upstream:
    """Has agents write on `engine`, under `profile`, and makes the readings of those after them.

    `captures`: states that the rows are to carry (name → graph node); those of `profile` if None. `check` is called at each step of
    a prefill and ends it by raising.
    """

    def __init__(
        self,
        engine: Engine,
        profile: Profile,
        options: ChainOptions,
        captures: Mapping[str, str] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine, self._profile, self._options, self._captures, self._check = engine, profile, options, captures, check
        self._prompts = PromptBuilder(engine.template, engine.tokenizer)

    @property
    def prompts(self) -> PromptBuilder:
        return self._prompts

    def chain(self, task: Task, agents: Sequence[Agent]) -> Iterator[Reading]:
        """A reading for each agent but the first; the chain goes on writing when the next one is asked for."""
        written: list[Written] = []
        last = len(agents) - 1
        graded = next((i for i, agent in enumerate(agents) if i and agent.name == "code"), last) if task.program else last
        for index, agent in enumerate(agents):
            messages = self._messages(task, agents, index, written)
            if index:
                yield self._reading(task, agent, index, index == graded, messages, written)
            if index < last:
                written.append(self.write(agent, messages))

    def joined(self, answers: Sequence[Written], n_relayed: int, task: Task, reader: Agent) -> Reading:
        """`reader` reads `n_relayed` tokens in all, from the starts of as few of `answers` (LEAST_JOINED long or more) as that takes."""
        lengths = pieces([answer.n_relayable for answer in answers], n_relayed)
        taken = [answer.cut(length) for answer, length in zip(answers, lengths, strict=False)]
        messages = self._messages(task, [*(Agent(answer.agent, "-") for answer in taken), reader], len(taken), taken)
        return self._reading(task, reader, len(taken), True, messages, taken)

    def write(self, agent: Agent, messages: Sequence[Message]) -> Written:
        """The greedy answer to `messages`, exactly computed. Raises UsageError if the agent says nothing."""
        prompt = self._prompts.build(messages)
        self._compute(prompt)
        writer = self._engine.generate(Sampling(max_tokens=self._options.max_tokens))
        for _ in writer:
            pass
        if not writer.tokens:
            raise UsageError(f"the model writes nothing as agent {agent.name}; give other --agents or another model")
        return Written(agent.name, writer.tokens, self._engine.harvest(agent.name), len(prompt))

    def first_messages(self, task: Task, agent: Agent) -> list[Message]:
        """What the first agent of a chain reads."""
        return messages_for([agent], 0, [Round(task.text)])

    def _messages(self, task: Task, agents: Sequence[Agent], index: int, written: Sequence[Written]) -> list[Message]:
        turns = [Turn(each.agent, at, 0, "", each.tokens, "stop", TurnMetrics()) for at, each in enumerate(written)]
        return messages_for(agents, index, [Round(task.text, turns)])

    def _compute(self, prompt: Prompt, n: int | None = None) -> None:
        """Full prefill of the first `n` tokens, with the states captured that the relayed rows need."""
        self._engine.configure(self._profile, captures=self._captures)
        self._engine.prefill(make_plan(prompt.tokens[:n], Store(self._engine.layout, 0), FULL), lambda _: self._check())

    def _reading(
        self, task: Task, agent: Agent, index: int, is_graded: bool, messages: Sequence[Message], written: Sequence[Written]
    ) -> Reading:
        known: list[Rows] = []
        if self._options.is_warm:
            prompt = self._prompts.build(messages)
            n_before = 0
            for part in prompt.parts:
                if part.kind == "answer":
                    break
                n_before += len(part.tokens)
            self._compute(prompt, n_before)
            known.append(self._engine.harvest(""))
        for answer in written:
            if answer.n_relayable:
                known.append(answer.answer_rows() if self._options.is_warm else answer.rows)
        store = Store(self._engine.layout, UNLIMITED)
        for rows in known:
            store.put(rows)
        return Reading(task, agent.name, index, is_graded, tuple(messages), tuple(known), store)


def pieces(lengths: Sequence[int], n: int) -> list[int]:
    """How many tokens of each text are taken for `n` tokens in all. Texts are taken whole, but for the last one or two.

    `lengths`: those of the texts, LEAST_JOINED or more each. No part is shorter than LEAST_PIECE, unless `n` is.
    """
    taken: list[int] = []
    for length in lengths:
        missing = n - sum(taken)
        if missing <= 0:
            break
        if taken and missing < LEAST_PIECE:
            taken[-1] -= LEAST_PIECE - missing
            missing = LEAST_PIECE
        taken.append(min(length, missing))
    return taken
