"""A conversation with a chain, and what each agent gets to see of it. Values in, messages out; runs nothing.

An agent sees its own past: for each round the body that it was given and the answer that it gave. A body is the attached files, the
task, and the answers that the agent reads, in chain order under headers that are the same for every reader, then a closing line. So
what agents share is the same run of tokens in each of their prompts, and what changes most comes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from relaylite.chain.agents import Agent
from relaylite.chain.attachments import Attachment
from relaylite.events import Turn
from relaylite.prompt.messages import Answer, Message, Text

FILE_HEADER = "File {source}:\n\n"
AFTER_FILE = "\n\n"
ANSWER_HEADER = "\n\nAnswer of {agent}:\n\n"
CLOSING = "\n\nNow answer as {agent}, following your instructions."


@dataclass(slots=True)
class Round:
    """One message of the user and the answers to it, in chain order; fewer than agents if the run was stopped."""

    task: str
    turns: list[Turn] = field(default_factory=list)
    files: tuple[Attachment, ...] = ()


def messages_for(agents: Sequence[Agent], index: int, rounds: Sequence[Round]) -> list[Message]:
    """What the agent at `index` gets to see: its instructions, its own past, and the last round with the answers before its own.

    An agent that stands twice in the chain has two pasts. Rounds that it did not answer are not part of its past.
    """
    agent = agents[index]
    occurrence = [each.name for each in agents[:index]].count(agent.name)
    messages = [Message("system", (Text(agent.instructions, "system", agent.name),))]
    for past in rounds[:-1]:
        own = [at for at, turn in enumerate(past.turns) if turn.agent == agent.name][occurrence : occurrence + 1]
        for at in own:
            if past.turns[at].tokens:
                messages += [Message("user", _body(agent, past, at)), Message("assistant", (_answer(past.turns[at]),))]
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
