"""`/v1/chat/completions`: OpenAI's chat."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import Any

from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response

from relaylite.completion.answer import Finished, Piece, Prefilled, TokenLogprob
from relaylite.completion.request import CompletionRequest
from relaylite.serve.answers.figures import figures, usage
from relaylite.serve.answers.logprobs import chat_logprobs
from relaylite.serve.answers.progress import Progress
from relaylite.serve.body import read_body
from relaylite.serve.dialects.answering import answered
from relaylite.serve.exchange import Exchange, Outcome
from relaylite.serve.interface import CompletionsLike
from relaylite.serve.reading.logprobs import read_chat_logprobs
from relaylite.serve.reading.messages import read_messages
from relaylite.serve.reading.options import new_id, read_n, refuse_unsupported, request_options
from relaylite.serve.reading.sampling import read_sampling
from relaylite.serve.service import service_of
from relaylite.serve.sse import DONE, event

FINGERPRINT = f"relaylite-{version('relaylite')}"


async def chat_completions(request: Request) -> Response:
    service = service_of(request)
    completions = service.completions
    body = await read_body(request)
    refuse_unsupported(body)
    asked = CompletionRequest(
        messages=read_messages(body),
        sampling=read_sampling(body, service.sampling, completions),
        n=read_n(body),
        n_logprobs=read_chat_logprobs(body),
        id=new_id("chatcmpl-"),
        **request_options(request, body, service),
    )
    answer = ChatAnswer(asked, completions)
    shows_usage = body.fields("stream_options").flag("include_usage")
    stream = (lambda exchange: answer.chunks(exchange, shows_usage=shows_usage)) if body.flag("stream") else None
    return await answered(request, [asked], answer.document, stream)


class ChatAnswer:
    """The answer to one request, whole or in chunks."""

    def __init__(self, asked: CompletionRequest, completions: CompletionsLike) -> None:
        self._asked, self._piece = asked, completions.piece
        self._head = {"id": asked.id, "created": int(time.time()), "model": completions.info.name, "system_fingerprint": FINGERPRINT}

    def document(self, outcomes: list[Outcome]) -> dict[str, Any]:
        [outcome] = outcomes
        choices = [self._choice(finished) for finished in outcome.answers]
        head = {**self._head, "object": "chat.completion"}
        return {**head, "choices": choices, "usage": usage(outcomes), **figures(self._asked.policy, outcome)}

    def _choice(self, finished: Finished) -> dict[str, Any]:
        return {
            "index": finished.index,
            "message": {"role": "assistant", "content": finished.text},
            "logprobs": self._logprobs(finished.logprobs),
            "finish_reason": finished.finish_reason,
        }

    async def chunks(self, exchange: Exchange, *, shows_usage: bool) -> AsyncIterator[ServerSentEvent]:
        progress: Progress | None = None
        async for _, each in exchange.events():
            if isinstance(each, Prefilled):
                progress = Progress(each)
                yield self._chunk(0, {"role": "assistant", "content": ""})
                continue
            assert progress is not None
            if progress.is_new(each.index) and each.index:
                yield self._chunk(each.index, {"role": "assistant", "content": ""})
            if isinstance(each, Piece):
                progress.add(each)
                if each.text or each.logprob:
                    yield self._chunk(each.index, {"content": each.text}, logprobs=self._logprobs(filter(None, [each.logprob])))
                continue
            if rest := progress.end(each):
                yield self._chunk(each.index, {"content": rest})
            is_last = each.index == self._asked.n - 1 and not shows_usage
            extra = figures(self._asked.policy, progress.outcome) if is_last else {}
            yield self._chunk(each.index, {}, finish_reason=each.finish_reason, **extra)
        if shows_usage and progress is not None:
            extra = figures(self._asked.policy, progress.outcome)
            yield event({**self._chunk_head(), "choices": [], "usage": usage([progress.outcome]), **extra})
        yield DONE

    def _chunk_head(self) -> dict[str, Any]:
        return {**self._head, "object": "chat.completion.chunk"}

    def _chunk(
        self, index: int, delta: dict[str, Any], *, finish_reason: str | None = None, logprobs: Any = None, **extra: Any
    ) -> ServerSentEvent:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
        return event({**self._chunk_head(), "choices": [choice], **extra})

    def _logprobs(self, entries: Any) -> dict[str, Any] | None:
        found: list[TokenLogprob] = list(entries)
        return chat_logprobs(found, self._piece) if self._asked.n_logprobs is not None and found else None
