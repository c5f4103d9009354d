"""`read_messages`: OpenAI's messages as plain text, whatever form their content has."""

from __future__ import annotations

import json
from collections.abc import Iterator

from relaylite.completion.request import ChatMessage, ChatRole
from relaylite.serve.errors import ApiError
from relaylite.serve.fields import Fields, kind_of

ROLES: dict[str, ChatRole] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
TEXT_PARTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}  # type of a part: the field with its text
OTHER_PARTS = {"image_url", "input_image", "image", "input_audio", "audio", "file", "input_file", "document", "video_url"}


def read_messages(body: Fields, name: str = "messages") -> tuple[ChatMessage, ...]:
    """Raises ApiError for anything that is no text message, and for an empty list."""
    messages = tuple(_message(message) for message in body.objects(name))
    if not messages:
        raise body.refuse(name, "must have at least one message")
    return messages


def _message(message: Fields) -> ChatMessage:
    role = role_of(message)
    if role != "assistant" and "content" not in message:
        raise message.refuse("content", "is missing")
    calls = [called(call.fields("function")) for call in message.objects("tool_calls")]
    if message.raw("function_call") is not None:
        calls.append(called(message.fields("function_call")))
    return ChatMessage(role, "\n".join(filter(None, [content_text(message, "content"), *calls])))


def role_of(message: Fields) -> ChatRole:
    role = message.needed_text("role")
    if role not in ROLES:
        raise message.refuse("role", f"must be one of {', '.join(ROLES)}, not {role!r}")
    return ROLES[role]


def content_text(message: Fields, name: str) -> str:
    """A text, or a list of parts whose texts are joined by line ends; "" for null."""
    value = message.raw(name)
    if value is None or isinstance(value, str):
        return value or ""
    if not isinstance(value, list):
        raise message.refuse(name, f"must be a text or a list of parts, not {kind_of(value)}")
    return "\n".join(_part_texts(message, name))


def _part_texts(message: Fields, name: str) -> Iterator[str]:
    for part in message.objects(name):
        kind = part.needed_text("type")
        if kind not in TEXT_PARTS:
            raise unreadable_part(part, kind)
        yield part.needed_text(TEXT_PARTS[kind])


def unreadable_part(part: Fields, kind: str) -> ApiError:
    what = "cannot be read: this server reads text only" if kind in OTHER_PARTS else "is not known"
    return part.refuse("type", f"{kind!r} {what}")


def called(call: Fields) -> str:
    """A call of a tool as models of the Hermes family write it."""
    return tool_call_text(call.needed_text("name"), call.raw("arguments"))


def tool_call_text(name: str, arguments: object) -> str:
    """`arguments`: JSON as text, which is kept as it is, or the value itself."""
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments or {}, ensure_ascii=False)
    elif not _is_json(arguments):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return f'<tool_call>\n{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {arguments}}}\n</tool_call>'


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
