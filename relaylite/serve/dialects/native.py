"""`/completion`: llama-server's own form."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Any

from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response

from relaylite.completion.answer import Finished, Piece, Prefilled
from relaylite.completion.request import CompletionRequest
from relaylite.serve.answers.figures import cached_tokens, figures
from relaylite.serve.answers.logprobs import native_logprobs
from relaylite.serve.answers.progress import Progress
from relaylite.serve.body import read_body
from relaylite.serve.dialects.answering import answered
from relaylite.serve.dialects.legacy import reads_special
from relaylite.serve.exchange import Exchange, Outcome
from relaylite.serve.interface import CompletionsLike
from relaylite.serve.reading.logprobs import read_count
from relaylite.serve.reading.options import new_id, read_n, refuse_unsupported, request_options
from relaylite.serve.reading.prompts import read_prompts
from relaylite.serve.reading.sampling import read_sampling
from relaylite.serve.service import service_of
from relaylite.serve.sse import event


async def completion(request: Request) -> Response:
    service = service_of(request)
    model = service.completions
    body = await read_body(request)
    refuse_unsupported(body)
    shared = {
        "parses_special": reads_special(body),
        "sampling": read_sampling(body, service.sampling, model),
        "n": read_n(body),
        "n_logprobs": read_count(body, "n_probs") or None,
        **request_options(request, body, service),
    }
    prompts = read_prompts(body, model, parses_special=shared["parses_special"])
    id = new_id("llama-")
    asked = [CompletionRequest(prompt=prompt, id=f"{id}-{i}" if i else id, **shared) for i, prompt in enumerate(prompts)]
    answer = NativeAnswer(asked, model, returns_tokens=body.flag("return_tokens"))
    return await answered(request, asked, answer.document, answer.chunks if body.flag("stream") else None)


class NativeAnswer:
    """One object for one answer; a list of them for several."""

    def __init__(self, asked: Sequence[CompletionRequest], model: CompletionsLike, *, returns_tokens: bool) -> None:
        self._asked, self._model, self._returns_tokens = asked, model, returns_tokens

    def document(self, outcomes: list[Outcome]) -> Any:
        documents = [self._whole(i, out, each, each.text) for i, out in enumerate(outcomes) for each in out.answers]
        return documents[0] if len(documents) == 1 else documents

    async def chunks(self, exchange: Exchange) -> AsyncIterator[ServerSentEvent]:
        progress: Progress | None = None
        async for i, each in exchange.events():
            if isinstance(each, Prefilled):
                progress, n = Progress(each), 0
                continue
            assert progress is not None
            if isinstance(each, Piece):
                progress.add(each)
                n += 1
                yield event(self._part(i, each, n, len(progress.outcome.prefilled.prompt)))
                continue
            rest = progress.end(each)
            yield event({**self._whole(i, progress.outcome, each, rest), "tokens": []})

    def _part(self, i: int, piece: Piece, n_predicted: int, n_prompt: int) -> dict[str, Any]:
        probs = {"completion_probabilities": native_logprobs([piece.logprob], self._model.piece)} if piece.logprob else {}
        return {
            "index": self._asked[i].n * i + piece.index,
            "content": piece.text,
            "tokens": [piece.token],
            "stop": False,
            "id_slot": 0,
            "tokens_predicted": n_predicted,
            "tokens_evaluated": n_prompt,
            **probs,
        }

    def _whole(self, i: int, outcome: Outcome, finished: Finished, text: str) -> dict[str, Any]:
        asked = self._asked[i]
        stop_type = "limit" if finished.finish_reason == "length" else "word" if finished.stop else "eos"
        sampling = asdict(asked.sampling)
        probs = {"completion_probabilities": native_logprobs(finished.logprobs, self._model.piece)} if finished.logprobs else {}
        return {
            "index": asked.n * i + finished.index,
            "content": text,
            "tokens": list(finished.tokens) if self._returns_tokens else [],
            "id_slot": 0,
            "stop": True,
            "model": self._model.info.name,
            "tokens_predicted": finished.metrics.generated_tokens,
            "tokens_evaluated": len(outcome.prefilled.prompt),
            "tokens_cached": cached_tokens(outcome.prefilled.reuse),
            "generation_settings": {**sampling, "n_predict": asked.sampling.max_tokens},
            "prompt": asked.prompt if isinstance(asked.prompt, str) else list(asked.prompt or ()),
            "has_new_line": "\n" in finished.text,
            "truncated": False,
            "stop_type": stop_type,
            "stopping_word": finished.stop,
            **probs,
            **figures(asked.policy, Outcome(outcome.prefilled, (finished,))),
        }
