"""`Conversation`: rounds of messages and answers, and what each agent gets to see of them. Values only; runs nothing.

An agent sees its own earlier messages: for each round the body that it was given and the answer that it gave. A body is the attached
files, the task, and the answers that the agent reads, in chain order under headers that are the same for every reader, then a closing
line. So agents that read the same have the same tokens in a row in their prompts, and what changes most comes last.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from relaylite.chain.agents import Agent
from relaylite.chain.attachments import Attachment
from relaylite.chain.branches import Branch, Branches, Place, copied
from relaylite.errors import UsageError
from relaylite.events import Turn
from relaylite.metrics import FINISH_STOP
from relaylite.prompt.builder import Prompt
from relaylite.prompt.messages import Answer, Message, Text
from relaylite.prompt.tokenizer import Tokenizer

FILE_HEADER = "File {source}:\n\n"
AFTER_FILE = "\n\n"
ANSWER_HEADER = "\n\nAnswer of {agent}:\n\n"
CLOSING = "\n\nNow answer as {agent}, following your instructions."


@dataclass(slots=True)
class Round:
    """One message of the user, the files that went with it, and the answers, in chain order: fewer than agents if the run was stopped."""

    task: str
    turns: list[Turn] = field(default_factory=list)
    files: tuple[Attachment, ...] = ()

    @property
    def names(self) -> list[str]:
        """Who has answered, in the order of the answers."""
        return [turn.agent for turn in self.turns]


@dataclass(slots=True)
class Conversation:
    """The rounds of the current branch, the oldest first; `branches` has them and every other branch, so nothing is lost by a change.

    The first `n_dropped` rounds are kept, but no agent reads them any more: they did not fit the context.
    """

    rounds: Branch = field(default_factory=list)
    n_dropped: int = 0
    branches: Branches = field(init=False)

    def __post_init__(self) -> None:
        self.branches = Branches([self.rounds])

    @classmethod
    def of(cls, branches: Branches, n_dropped: int) -> Conversation:
        """The conversation that goes on in the current one of these branches."""
        conversation = cls(branches.rounds, n_dropped)
        conversation.branches = branches
        return conversation

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever said."""
        return not any(self.branches.every)

    @property
    def rounds_read(self) -> list[Round]:
        """The rounds that agents still read."""
        return self.rounds[self.n_dropped :]

    def begin(self, round: Round) -> int:
        """Add `round`, unless it is the last one already. Its number, from 0."""
        if not self.rounds or self.rounds[-1] is not round:
            self.rounds.append(round)
        return len(self.rounds) - 1

    def add(self, turn: Turn) -> None:
        """Put an answer at its place; answers behind it move on by one."""
        turns = self.rounds[turn.round].turns
        turns[turn.index :] = [turn, *(replace(later, index=later.index + 1) for later in turns[turn.index :])]

    def answer(self, round: int, index: int) -> Turn:
        """The answer at `index`. Raises UsageError if there is none."""
        if not 0 <= round < len(self.rounds) or not 0 <= index < len(self.rounds[round].turns):
            raise UsageError(f"there is no answer {index} in round {round}")
        return self.rounds[round].turns[index]

    # changes; each leaves the branch before as it was

    def edit(self, round: int, index: int, text: str, tokenizer: Tokenizer) -> None:
        """Replace an answer by `text`. Raises UsageError if there is no such answer, or if `text` is empty or no valid text."""
        old = self.answer(round, index)
        if not text.strip():
            raise UsageError("an answer cannot be empty; write something, or retry the agent")
        edited = Text(text, "answer", old.agent)  # refuses what is no text
        tokens = tuple(tokenizer.tokenize(edited.text, parse_special=False))
        rounds = copied(self.rounds)
        rounds[round].turns[index] = replace(old, text=text, tokens=tokens, was_edited=True)
        self._change(lambda: self.branches.go_on_with(rounds))

    def take_back(self, index: int | None = None, round: int | None = None) -> str:
        """Go back to before a round, or only to before its answer at `index`; its message. By default it is the last round.

        Raises UsageError if that is not there.
        """
        if not self.rounds:
            raise UsageError("there is no round to retry yet")
        number = len(self.rounds) - 1 if round is None else round
        if not 0 <= number < len(self.rounds):
            raise UsageError(f"there is no round {number}")
        last = self.rounds[number]
        if index is not None and not 0 <= index <= len(last.turns):
            raise UsageError(f"cannot retry from agent {index}: {len(last.turns)} agents have answered")
        rounds = copied(self.rounds[:number]) + ([] if index is None else [replace(last, turns=last.turns[:index])])
        self._change(lambda: self.branches.go_on_with(rounds))
        return last.task

    def undo(self) -> None:
        """Take the last change back. Raises UsageError if there is none."""
        self._change(self.branches.undo)

    def redo(self) -> None:
        """Take the last `undo` back. Raises UsageError if there is none, or if something was changed since."""
        self._change(self.branches.redo)

    def choose(self, place: Place, version: int) -> None:
        """Show another version of a message or an answer, and what followed it. Raises UsageError if there is none."""
        self._change(lambda: self.branches.choose(place, version))

    def _change(self, change: Callable[[], None]) -> None:
        change()
        self.rounds = self.branches.rounds
        if self.n_dropped >= len(self.rounds):
            self.n_dropped = 0  # what fits is found out anew


def unfinished(turn: Turn, tokenizer: Tokenizer) -> Turn:
    """What an answer that was cut goes on from: without the first bytes of a character, which the model writes again.

    Raises UsageError if it was not cut.
    """
    if turn.finish_reason == FINISH_STOP:
        raise UsageError(f"{turn.agent}'s answer was not cut; retry it for another one")
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    tokens, pieces = turn.tokens, [tokenizer.piece(token) for token in turn.tokens]
    while True:
        decoder.reset()
        text = decoder.decode(b"".join(pieces[: len(tokens)]))
        if not decoder.getstate()[0]:
            return replace(turn, tokens=tokens, text=text)
        tokens = tokens[:-1]


def begun_in(turn: Turn, prompt: Prompt) -> Turn | None:
    """What `turn` went on from, if its prompt ends with the beginning of the answer."""
    last = prompt.parts[-1]
    if last.kind != "answer" or last.whole or turn.tokens[: len(last.tokens)] != last.tokens:
        return None
    return replace(turn, tokens=last.tokens, text=last.text)


def messages_for(agents: Sequence[Agent], index: int, rounds: Sequence[Round], n_before: int | None = None) -> list[Message]:
    """What the agent at `index` gets to see: its instructions, its earlier messages, and the last of `rounds` with the answers so far.

    An agent that stands twice in the chain has earlier messages for each place. Rounds that it did not answer are left out.
    `n_before`: the answers of the last round that stand before its own; by default as many as agents.
    """
    agent = agents[index]
    occurrence = [each.name for each in agents[:index]].count(agent.name)
    messages = [Message("system", (Text(agent.instructions, "system", agent.name),))]
    for earlier in rounds[:-1]:
        own = [at for at, turn in enumerate(earlier.turns) if turn.agent == agent.name][occurrence : occurrence + 1]
        for at in own:
            if earlier.turns[at].tokens:
                messages += [Message("user", _body(agent, earlier, at)), Message("assistant", (_answer(earlier.turns[at]),))]
    return [*messages, Message("user", _body(agent, rounds[-1], index if n_before is None else n_before))]


def _body(agent: Agent, round: Round, index: int) -> tuple[Text | Answer, ...]:
    """Files, task, and what `agent` reads of the first `index` answers."""
    first = {"task": index, "previous": max(index - 1, 0), "all": 0}[agent.reads]
    read = [turn for turn in round.turns[first:index] if turn.tokens]
    body: list[Text | Answer] = []
    for file in round.files:
        body += [Text(FILE_HEADER.format(source=file.source), "glue"), Text(file.text, "file", file.source), Text(AFTER_FILE, "glue")]
    body.append(Text(round.task, "user"))
    for turn in read:
        body += [Text(ANSWER_HEADER.format(agent=turn.agent), "glue"), _answer(turn)]
    return (*body, Text(CLOSING.format(agent=agent.name), "glue")) if read else tuple(body)


def _answer(turn: Turn) -> Answer:
    return Answer(turn.tokens, turn.agent)
