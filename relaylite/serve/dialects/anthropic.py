"""`/v1/messages`: Anthropic's form."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from anyio import to_thread
from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from relaylite.completion.answer import Finished, Prefilled
from relaylite.completion.request import ChatMessage, CompletionRequest
from relaylite.serve.answers.figures import cached_tokens, figures
from relaylite.serve.answers.progress import Progress
from relaylite.serve.body import read_body
from relaylite.serve.dialects.answering import answered
from relaylite.serve.exchange import Exchange, Outcome
from relaylite.serve.fields import Fields, kind_of
from relaylite.serve.interface import CompletionsLike
from relaylite.serve.reading.messages import tool_call_text, unreadable_part
from relaylite.serve.reading.options import new_id, refuse_unsupported, request_options
from relaylite.serve.reading.sampling import read_sampling
from relaylite.serve.service import service_of
from relaylite.serve.sse import event


async def messages(request: Request) -> Response:
    service = service_of(request)
    model = service.completions
    body = await read_body(request)
    refuse_unsupported(body)
    asked = CompletionRequest(
        messages=read_anthropic_messages(body),
        sampling=read_sampling(body, service.sampling, model, stops="stop_sequences"),
        id=new_id("msg_"),
        **request_options(request, body, service),
    )
    answer = MessageAnswer(asked, model)
    return await answered(request, [asked], answer.document, answer.events if body.flag("stream") else None)


async def count_tokens(request: Request) -> Response:
    model = service_of(request).completions
    read = read_anthropic_messages(await read_body(request))
    _, tokens = await to_thread.run_sync(model.render, read)
    return JSONResponse({"input_tokens": len(tokens)})


def read_anthropic_messages(body: Fields) -> tuple[ChatMessage, ...]:
    """The system text, then the messages. A tool's result is a message of its own, before what the user says beside it."""
    system = "\n".join(_texts(body, "system"))
    messages = [ChatMessage("system", system)] if system else []
    said = [each for message in body.objects("messages") for each in _message(message)]
    if not said:
        raise body.refuse("messages", "must have at least one message")
    return (*messages, *said)


def _message(message: Fields) -> Iterator[ChatMessage]:
    role = message.needed_text("role")
    if role not in ("user", "assistant", "system"):
        raise message.refuse("role", f"must be user or assistant, not {role!r}")
    blocks = [] if isinstance(message.raw("content"), str) else list(_blocks(message, "content"))
    for block in blocks:
        if block.text("type") == "tool_result":
            yield ChatMessage("tool", "\n".join(_texts(block, "content")))
    texts = list(_texts(message, "content"))
    if texts or not blocks:
        yield ChatMessage(role, "\n".join(texts))  # type: ignore[arg-type]


def _texts(owner: Fields, name: str) -> Iterator[str]:
    """The texts of a field that is a text or a list of blocks. Thoughts are left out; calls of tools are told as text."""
    if isinstance(owner.raw(name), str):
        yield owner.raw(name)
        return
    for block in _blocks(owner, name):
        kind = block.needed_text("type")
        if kind == "text":
            yield block.needed_text("text")
        elif kind == "tool_use":
            yield tool_call_text(block.needed_text("name"), block.raw("input"))
        elif kind not in ("tool_result", "thinking", "redacted_thinking"):
            raise unreadable_part(block, kind)


def _blocks(owner: Fields, name: str) -> Iterator[Fields]:
    value = owner.raw(name)
    if value is not None and not isinstance(value, list):
        raise owner.refuse(name, f"must be a text or a list of blocks, not {kind_of(value)}")
    return owner.objects(name)


class MessageAnswer:
    """The answer as one message, or as Anthropic's sequence of events."""

    def __init__(self, asked: CompletionRequest, model: CompletionsLike) -> None:
        self._asked, self._model_name = asked, model.info.name

    def document(self, outcomes: list[Outcome]) -> dict[str, Any]:
        [outcome] = outcomes
        [finished] = outcome.answers
        message = self._message(outcome.prefilled, [{"type": "text", "text": finished.text}], **_reason(finished))
        message["usage"]["output_tokens"] = finished.metrics.generated_tokens
        return {**message, **figures(self._asked.policy, outcome)}

    async def events(self, exchange: Exchange) -> AsyncIterator[ServerSentEvent]:
        progress: Progress | None = None
        async for _, each in exchange.events():
            if isinstance(each, Prefilled):
                progress = Progress(each)
                yield _event("message_start", message=self._message(each, []))
                yield _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
                yield _event("ping")
                continue
            assert progress is not None
            if text := progress.text_of(each):
                yield _event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
            if isinstance(each, Finished):
                yield _event("content_block_stop", index=0)
                usage = {**_usage(progress.outcome.prefilled), "output_tokens": each.metrics.generated_tokens}
                yield _event("message_delta", delta=_reason(each), usage=usage, **figures(self._asked.policy, progress.outcome))
                yield _event("message_stop")

    def _message(
        self, prefilled: Prefilled, content: list[Any], *, stop_reason: str | None = None, stop_sequence: str | None = None
    ) -> dict[str, Any]:
        return {
            "id": self._asked.id,
            "type": "message",
            "role": "assistant",
            "model": self._model_name,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": stop_sequence,
            "usage": _usage(prefilled),
        }


def _usage(prefilled: Prefilled) -> dict[str, int]:
    """`input_tokens` are those that were not taken over."""
    cached = cached_tokens(prefilled.reuse)
    return {
        "input_tokens": len(prefilled.prompt) - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": 0,
    }


def _reason(finished: Finished) -> dict[str, str | None]:
    if finished.finish_reason == "length":
        return {"stop_reason": "max_tokens", "stop_sequence": None}
    return {"stop_reason": "stop_sequence" if finished.stop else "end_turn", "stop_sequence": finished.stop or None}


def _event(name: str, **values: Any) -> ServerSentEvent:
    return event({"type": name, **values}, name)
