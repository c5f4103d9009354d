"""`/v1/responses`: OpenAI's newer form, without a memory: a request brings all that was said."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Any

from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response

from relaylite.completion.answer import Finished, Prefilled
from relaylite.completion.request import ChatMessage, CompletionRequest
from relaylite.serve.answers.figures import cached_tokens, figures
from relaylite.serve.answers.progress import Progress
from relaylite.serve.body import read_body
from relaylite.serve.dialects.answering import answered
from relaylite.serve.exchange import Exchange, Outcome
from relaylite.serve.fields import Fields
from relaylite.serve.interface import CompletionsLike
from relaylite.serve.reading.messages import content_text, role_of, tool_call_text
from relaylite.serve.reading.options import new_id, refuse_unsupported, request_options
from relaylite.serve.reading.sampling import read_sampling
from relaylite.serve.service import service_of
from relaylite.serve.sse import event


async def responses(request: Request) -> Response:
    service = service_of(request)
    model = service.completions
    body = await read_body(request)
    refuse_unsupported(body)
    for name in ("previous_response_id", "conversation", "prompt"):
        if body.raw(name) is not None:
            raise body.refuse(name, "is not supported: this server keeps no conversations; send all items as input")
    if body.flag("background"):
        raise body.refuse("background", "is not supported; leave it out")
    asked = CompletionRequest(
        messages=read_input(body),
        sampling=read_sampling(body, service.sampling, model),
        id=new_id("resp_"),
        **request_options(request, body, service),
    )
    answer = ResponseAnswer(asked, model, body)
    return await answered(request, [asked], answer.document, answer.events if body.flag("stream") else None)


def read_input(body: Fields) -> tuple[ChatMessage, ...]:
    """The instructions, then the input: a text or a list of items."""
    instructions = body.text("instructions")
    messages = [ChatMessage("system", instructions)] if instructions else []
    value = body.raw("input")
    if isinstance(value, str):
        return (*messages, ChatMessage("user", value))
    said = [message for item in body.objects("input") for message in _item(item)]
    if not said:
        raise body.refuse("input", "must be a text or a list with at least one message")
    return (*messages, *said)


def _item(item: Fields) -> Iterator[ChatMessage]:
    kind = item.text("type") or "message"
    if kind == "message":
        yield ChatMessage(role_of(item), content_text(item, "content"))
    elif kind == "function_call":
        yield ChatMessage("assistant", tool_call_text(item.needed_text("name"), item.raw("arguments")))
    elif kind == "function_call_output":
        yield ChatMessage("tool", content_text(item, "output"))
    elif kind != "reasoning":
        raise item.refuse("type", f"{kind!r} cannot be read by this server")


class ResponseAnswer:
    def __init__(self, asked: CompletionRequest, model: CompletionsLike, body: Fields) -> None:
        self._asked, self._model_name = asked, model.info.name
        self._item_id = new_id("msg_")
        self._created_at = int(time.time())
        metadata = body.raw("metadata")
        self._metadata = metadata if isinstance(metadata, dict) else {}
        self._instructions = body.text("instructions")

    def document(self, outcomes: list[Outcome]) -> dict[str, Any]:
        [outcome] = outcomes
        [finished] = outcome.answers
        return self._ended(outcome, finished)

    async def events(self, exchange: Exchange) -> AsyncIterator[ServerSentEvent]:
        numbers = count()

        def numbered(name: str, **values: Any) -> ServerSentEvent:
            return event({"type": name, "sequence_number": next(numbers), **values}, name)

        place: dict[str, Any] = {"item_id": self._item_id, "output_index": 0, "content_index": 0}
        begun = self._response("in_progress", [])
        yield numbered("response.created", response=begun)
        yield numbered("response.in_progress", response=begun)
        progress: Progress | None = None
        async for _, each in exchange.events():
            if isinstance(each, Prefilled):
                progress = Progress(each)
                yield numbered("response.output_item.added", output_index=0, item=self._item("in_progress", []))
                yield numbered("response.content_part.added", **place, part=_part(""))
                continue
            assert progress is not None
            if text := progress.text_of(each):
                yield numbered("response.output_text.delta", **place, delta=text, logprobs=[])
            if isinstance(each, Finished):
                response = self._ended(progress.outcome, each)
                yield numbered("response.output_text.done", **place, text=each.text, logprobs=[])
                yield numbered("response.content_part.done", **place, part=_part(each.text))
                yield numbered("response.output_item.done", output_index=0, item=response["output"][0])
                yield numbered(f"response.{response['status']}", response=response)

    def _ended(self, outcome: Outcome, finished: Finished) -> dict[str, Any]:
        status = "incomplete" if finished.finish_reason == "length" else "completed"
        response = self._response(status, [self._item(status, [_part(finished.text)])])
        response["incomplete_details"] = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return {**response, "usage": _usage(outcome, finished), **figures(self._asked.policy, outcome)}

    def _response(self, status: str, output: list[Any]) -> dict[str, Any]:
        return {
            "id": self._asked.id,
            "object": "response",
            "created_at": self._created_at,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": self._instructions,
            "metadata": self._metadata,
            "model": self._model_name,
            "output": output,
            "parallel_tool_calls": False,
            "previous_response_id": None,
            "store": False,
            "temperature": self._asked.sampling.temperature,
            "text": {"format": {"type": "text"}},
            "tool_choice": "none",
            "tools": [],
            "top_p": self._asked.sampling.top_p,
            "truncation": "disabled",
            "usage": None,
        }

    def _item(self, status: str, content: list[Any]) -> dict[str, Any]:
        return {"id": self._item_id, "type": "message", "role": "assistant", "status": status, "content": content}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(outcome: Outcome, finished: Finished) -> dict[str, Any]:
    read, written = len(outcome.prefilled.prompt), finished.metrics.generated_tokens
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": cached_tokens(outcome.prefilled.reuse), "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + written,
    }
