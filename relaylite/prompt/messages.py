"""`Message`: a role, and a body made of texts and answers. `foldings` are other forms of the same messages that more templates take.

Values only. An answer is known by its token ids, so it can be relayed in whatever message it ends up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from relaylite.errors import UsageError

Role = Literal["system", "user", "assistant", "tool"]
TextKind = Literal["system", "user", "file", "glue", "answer"]

_BETWEEN = "\n\n"  # what stands between messages that were joined
_RESULT = "Result of a tool:\n"  # what the user says before it


@dataclass(frozen=True, slots=True)
class Text:
    """Text that is tokenized alone, and never becomes a control token whatever it says.

    `kind` and `source` are those of `events.PromptPart`; an answer that was edited is a text of kind "answer".
    Raises UsageError for a lone surrogate: it stands for no character, and to replace it would change what was said.
    """

    text: str
    kind: TextKind = "user"
    source: str = ""

    def __post_init__(self) -> None:
        try:
            self.text.encode()
        except UnicodeEncodeError as error:
            what = f"{self.kind} text{f' of {self.source}' if self.source else ''}"
            half = f"half a character (U+{ord(self.text[error.start]):04X}) at position {error.start}"
            raise UsageError(f"the {what} holds {half}; give it as valid UTF-8") from error


@dataclass(frozen=True, slots=True)
class Answer:
    """What the agent `source` generated, by the ids that were sampled.

    If it is only a part of an answer, it is `whole[offset : offset + len(tokens)]`.
    """

    tokens: tuple[int, ...]
    source: str = ""
    whole: tuple[int, ...] = ()
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    body: tuple[Text | Answer, ...]


Messages = tuple[Message, ...]


def foldings(messages: Sequence[Message]) -> Iterator[Messages]:
    """`messages` as they are, then in forms that more templates take; the least changed first.

    Neighbours of one role are joined; answers before the first user message are told by the user; so is what the system says later than
    at the start, or all that it says; so is what tools give.
    """
    as_they_are = tuple(messages)
    forms = [as_they_are]
    for tools in (as_they_are, _with_results_told(as_they_are)):
        for system in (tools, _with_system_told(tools, first=_n_first(tools)), _with_system_told(tools, first=0)):
            forms += [_joined(system), _joined(_with_answers_told(system))]
    yield from dict.fromkeys(forms)


def parted(messages: Sequence[Message]) -> tuple[Messages, tuple[Text | Answer, ...]]:
    """The messages to answer, and the body of an answer that is begun already: that of the assistant's messages at the end."""
    n = len(messages)
    while n and messages[n - 1].role == "assistant":
        n -= 1
    begun = _joined(tuple(messages[n:]))
    return tuple(messages[:n]), begun[0].body if begun else ()


def _joined(messages: Messages) -> Messages:
    """Neighbours of one role become one message."""
    joined: list[Message] = []
    for message in messages:
        if joined and joined[-1].role == message.role:
            joined[-1] = replace(joined[-1], body=(*joined[-1].body, Text(_BETWEEN, "glue"), *message.body))
        else:
            joined.append(message)
    return tuple(joined)


def _with_answers_told(messages: Messages) -> Messages:
    first_user = next((i for i, message in enumerate(messages) if message.role == "user"), len(messages))
    return tuple(replace(m, role="user") if i < first_user and m.role == "assistant" else m for i, m in enumerate(messages))


def _with_system_told(messages: Messages, *, first: int) -> Messages:
    """From message number `first` on."""
    return tuple(replace(m, role="user") if i >= first and m.role == "system" else m for i, m in enumerate(messages))


def _with_results_told(messages: Messages) -> Messages:
    return tuple(replace(m, role="user", body=(Text(_RESULT, "glue"), *m.body)) if m.role == "tool" else m for m in messages)


def _n_first(messages: Messages) -> int:
    """How many system messages there are at the start."""
    return next((i for i, message in enumerate(messages) if message.role != "system"), len(messages))
