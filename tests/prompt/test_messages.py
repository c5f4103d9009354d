"""Messages and their foldings: what is said moves, whole, to where a template takes it."""

from __future__ import annotations

import pytest

from relaylite.errors import UsageError
from relaylite.prompt.messages import Answer, Message, Role, Text, foldings, parted

GLUE = Text("\n\n", "glue")
SYSTEM, TASK, MORE = Text("You plan.", "system", "plan"), Text("task"), Text("more")
PLAN = Answer((1, 2), "plan")


def message(role: Role, *body: Text | Answer) -> Message:
    return Message(role, body)


def test_what_every_template_takes_has_one_form() -> None:
    messages = (message("user", TASK), message("assistant", PLAN), message("user", MORE))
    assert list(foldings(messages)) == [messages]


def test_neighbours_of_one_role_are_joined_before_anything_else() -> None:
    messages = (message("system", SYSTEM), message("user", TASK), message("user", PLAN, MORE))
    assert list(foldings(messages)) == [
        messages,
        (message("system", SYSTEM), message("user", TASK, GLUE, PLAN, MORE)),
        (message("user", SYSTEM, GLUE, TASK, GLUE, PLAN, MORE),),
    ]


def test_answers_at_the_start_are_told_by_the_user() -> None:
    messages = (message("system", SYSTEM), message("assistant", PLAN), message("user", TASK))
    assert list(foldings(messages)) == [
        messages,
        (message("system", SYSTEM), message("user", PLAN, GLUE, TASK)),
        (message("user", SYSTEM), message("assistant", PLAN), message("user", TASK)),
    ]


def test_later_answers_stay_answers() -> None:
    messages = (message("assistant", PLAN), message("user", TASK), message("assistant", PLAN), message("user", MORE))
    assert list(foldings(messages))[1:] == [(message("user", PLAN, GLUE, TASK), message("assistant", PLAN), message("user", MORE))]


def test_what_the_system_says_later_is_told_before_what_it_says_first() -> None:
    messages = (message("system", SYSTEM), message("user", TASK), message("system", MORE), message("user", PLAN))
    assert list(foldings(messages)) == [
        messages,
        (message("system", SYSTEM), message("user", TASK, GLUE, MORE, GLUE, PLAN)),
        (message("user", SYSTEM, GLUE, TASK, GLUE, MORE, GLUE, PLAN),),
    ]


def test_what_a_tool_gave_is_told_by_the_user_under_a_heading() -> None:
    messages = (message("user", TASK), message("assistant", PLAN), message("tool", MORE), message("tool", TASK))
    result = Text("Result of a tool:\n", "glue")
    assert list(foldings(messages)) == [
        messages,
        (*messages[:2], message("tool", MORE, GLUE, TASK)),
        (*messages[:2], message("user", result, MORE, GLUE, result, TASK)),
    ]


def test_answers_at_the_end_are_begun_already() -> None:
    messages = (message("user", TASK), message("assistant", PLAN), message("assistant", MORE))
    assert parted(messages) == (messages[:1], (PLAN, GLUE, MORE))
    assert parted(messages[:1]) == (messages[:1], ())
    assert parted(messages[1:2]) == ((), (PLAN,))


@pytest.mark.parametrize("text", ["\ud800", "caf\udce9", "a\udfffb"])
def test_half_a_character_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match=r"^the file text of notes\.md holds half a character \(U\+D[89A-F]..\) at position \d; give"):
        Text(text, "file", "notes.md")


@pytest.mark.parametrize("text", ["", " ", "\0", "\U0001f642", "\ufffd", "<|im_start|>"])
def test_every_other_text_is_taken(text: str) -> None:
    assert Text(text).text == text
