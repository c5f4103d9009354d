"""`Conversation`: rounds of messages and answers, and what each agent gets to see of them. Values only; runs nothing.

An agent sees its own earlier messages: for each round the body that it was given and the answer that it gave. A body is the attached
files, the task, and the answers that the agent reads, in chain order under headers that are the same for every reader, then a closing
line. So agents that read the same have the same tokens in a row in their prompts, and what changes most comes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from relaylite.chain.agents import Agent
from relaylite.chain.attachments import Attachment
from relaylite.errors import UsageError
from relaylite.events import Turn
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


@dataclass(slots=True)
class Conversation:
    """Rounds, the oldest first. The first `n_dropped` are kept, but no agent reads them any more: they did not fit the context.

    `n_retries`: how often answers were taken back.
    """

    rounds: list[Round] = field(default_factory=list)
    n_dropped: int = 0
    n_retries: int = 0

    @property
    def rounds_read(self) -> list[Round]:
        """The rounds that agents still read."""
        return self.rounds[self.n_dropped :]

    def begin(self, round: Round) -> int:
        """Add `round`, unless it is the last one already. Its number, from 0."""
        if not self.rounds or self.rounds[-1] is not round:
            self.rounds.append(round)
        return len(self.rounds) - 1

    def answer(self, round: int, index: int) -> Turn:
        """The answer of the agent at `index`. Raises UsageError if there is none."""
        if not 0 <= round < len(self.rounds) or not 0 <= index < len(self.rounds[round].turns):
            raise UsageError(f"there is no answer {index} in round {round}")
        return self.rounds[round].turns[index]

    def edit(self, round: int, index: int, text: str, tokenizer: Tokenizer) -> None:
        """Replace an answer by `text`. Raises UsageError if there is no such answer, or if `text` is empty or no valid text."""
        old = self.answer(round, index)
        if not text.strip():
            raise UsageError("an answer cannot be empty; write something, or retry the agent")
        edited = Text(text, "answer", old.agent)  # refuses what is no text
        tokens = tuple(tokenizer.tokenize(edited.text, parse_special=False))
        self.rounds[round].turns[index] = replace(old, text=text, tokens=tokens, was_edited=True)

    def take_back(self, index: int | None = None) -> str:
        """Drop the last round, or only its answers from the agent at `index` on; its message. Raises UsageError if that is not there."""
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
        self.n_retries += 1
        return last.task


def messages_for(agents: Sequence[Agent], index: int, rounds: Sequence[Round]) -> list[Message]:
    """What the agent at `index` gets to see: its instructions, its earlier messages, and the last of `rounds` with the answers so far.

    An agent that stands twice in the chain has earlier messages for each place. Rounds that it did not answer are left out.
    """
    agent = agents[index]
    occurrence = [each.name for each in agents[:index]].count(agent.name)
    messages = [Message("system", (Text(agent.instructions, "system", agent.name),))]
    for earlier in rounds[:-1]:
        own = [at for at, turn in enumerate(earlier.turns) if turn.agent == agent.name][occurrence : occurrence + 1]
        for at in own:
            if earlier.turns[at].tokens:
                messages += [Message("user", _body(agent, earlier, at)), Message("assistant", (_answer(earlier.turns[at]),))]
    return [*messages, Message("user", _body(agent, rounds[-1], index))]


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
