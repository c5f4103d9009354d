"""`/v1/completions`: OpenAI's older form, text that goes on from a prompt."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response

from relaylite.completion.answer import Finished, Piece, Prefilled
from relaylite.completion.request import CompletionRequest
from relaylite.serve.answers.figures import figures, usage
from relaylite.serve.answers.logprobs import legacy_logprobs
from relaylite.serve.answers.progress import Progress
from relaylite.serve.body import read_body
from relaylite.serve.dialects.answering import answered
from relaylite.serve.dialects.chat import FINGERPRINT
from relaylite.serve.exchange import Exchange, Outcome
from relaylite.serve.fields import Fields
from relaylite.serve.interface import CompletionsLike
from relaylite.serve.reading.logprobs import read_count
from relaylite.serve.reading.options import new_id, read_n, refuse_unsupported, request_options
from relaylite.serve.reading.prompts import read_prompts
from relaylite.serve.reading.sampling import read_sampling
from relaylite.serve.service import service_of
from relaylite.serve.sse import DONE, event


async def completions(request: Request) -> Response:
    service = service_of(request)
    model = service.completions
    body = await read_body(request)
    refuse_unsupported(body)
    if body.text("suffix"):
        raise body.refuse("suffix", "is not supported by this server; leave it out")
    echo, n_logprobs = body.flag("echo"), read_count(body, "logprobs")
    if echo and n_logprobs is not None:
        raise body.refuse("echo", "cannot be combined with logprobs: those of the prompt are not computed")
    id, parses_special = new_id("cmpl-"), reads_special(body)
    shared = {
        "parses_special": parses_special,
        "sampling": read_sampling(body, service.sampling, model),
        "n": read_n(body),
        "n_logprobs": n_logprobs,
        **request_options(request, body, service),
    }
    prompts = read_prompts(body, model, parses_special=parses_special)
    asked = [CompletionRequest(prompt=prompt, id=f"{id}-{i}" if i else id, **shared) for i, prompt in enumerate(prompts)]
    answer = TextAnswer(asked, model, echo=echo)
    shows_usage = body.fields("stream_options").flag("include_usage")
    stream = (lambda exchange: answer.chunks(exchange, shows_usage=shows_usage)) if body.flag("stream") else None
    return await answered(request, asked, answer.document, stream)


def reads_special(body: Fields) -> bool:
    """A prompt may hold what others wrote: names of control tokens stay text unless the client says otherwise."""
    return body.flag("parse_special")


class TextAnswer:
    """The answers to one or several prompts. Choice `n * i + j` is answer j to prompt i."""

    def __init__(self, asked: Sequence[CompletionRequest], model: CompletionsLike, *, echo: bool) -> None:
        self._asked, self._model = asked, model
        self._echoes = [self._text(each) if echo else "" for each in asked]
        self._head = {
            "id": asked[0].id,
            "object": "text_completion",
            "created": int(time.time()),
            "model": model.info.name,
            "system_fingerprint": FINGERPRINT,
        }

    def document(self, outcomes: list[Outcome]) -> dict[str, Any]:
        choices = [self._choice(i, each, self._echoes[i] + each.text, each) for i, out in enumerate(outcomes) for each in out.answers]
        return {**self._head, "choices": choices, "usage": usage(outcomes), **figures(self._asked[-1].policy, outcomes[-1])}

    async def chunks(self, exchange: Exchange, *, shows_usage: bool) -> AsyncIterator[ServerSentEvent]:
        all_progress: list[Progress] = []
        async for i, each in exchange.events():
            if isinstance(each, Prefilled):
                all_progress.append(Progress(each))
                continue
            progress = all_progress[-1]
            if progress.is_new(each.index) and self._echoes[i]:
                yield event({**self._head, "choices": [self._choice(i, each, self._echoes[i])]})
            if isinstance(each, Piece):
                progress.add(each)
                if each.text or each.logprob:
                    yield event({**self._head, "choices": [self._choice(i, each, each.text)]})
                continue
            rest = progress.end(each)
            is_last = not shows_usage and i == len(self._asked) - 1 and each.index == self._asked[i].n - 1
            extra = figures(self._asked[i].policy, progress.outcome) if is_last else {}
            choice = {**self._choice(i, each, rest, each), "logprobs": None}
            yield event({**self._head, "choices": [choice], **extra})
        if shows_usage:
            outcomes = [progress.outcome for progress in all_progress]
            yield event({**self._head, "choices": [], "usage": usage(outcomes), **figures(self._asked[-1].policy, outcomes[-1])})
        yield DONE

    def _choice(self, i: int, each: Piece | Finished, text: str, finished: Finished | None = None) -> dict[str, Any]:
        asked = self._asked[i]
        entries = each.logprobs if isinstance(each, Finished) else tuple(filter(None, [each.logprob]))
        return {
            "index": asked.n * i + each.index,
            "text": text,
            "logprobs": legacy_logprobs(entries, self._model.piece) if asked.n_logprobs is not None and entries else None,
            "finish_reason": finished.finish_reason if finished else None,
        }

    def _text(self, asked: CompletionRequest) -> str:
        if isinstance(asked.prompt, str):
            return asked.prompt
        return b"".join(map(self._model.piece, asked.prompt or ())).decode(errors="replace")
