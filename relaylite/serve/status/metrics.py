"""`/metrics`: Prometheus text, with llama-server's names where it has one."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from relaylite.completion.overview import Overview
from relaylite.serve.service import service_of

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def metrics(request: Request) -> Response:
    overview = service_of(request).completions.overview()
    return PlainTextResponse("".join(_lines(overview)), media_type=CONTENT_TYPE)


def _lines(overview: Overview) -> Iterator[str]:
    for name, kind, about, value in _metrics(overview):
        yield f"# HELP {name} {about}\n# TYPE {name} {kind}\n{name} {value:.10g}\n"


def _metrics(overview: Overview) -> Iterator[tuple[str, str, str, float]]:
    t = overview.totals
    yield "llamacpp:prompt_tokens_total", "counter", "Number of prompt tokens computed.", t.computed_tokens
    yield "llamacpp:prompt_seconds_total", "counter", "Prompt processing time.", t.prefill_seconds
    yield "llamacpp:tokens_predicted_total", "counter", "Number of generated tokens.", t.generated_tokens
    yield "llamacpp:tokens_predicted_seconds_total", "counter", "Generation time.", t.decode_seconds
    yield "llamacpp:prompt_tokens_seconds", "gauge", "Average prompt tokens computed a second.", _rate(t.computed_tokens, t.prefill_seconds)
    yield "llamacpp:predicted_tokens_seconds", "gauge", "Average tokens generated a second.", _rate(t.generated_tokens, t.decode_seconds)
    yield "llamacpp:requests_processing", "gauge", "Requests that run.", overview.n_running
    yield "llamacpp:requests_deferred", "gauge", "Requests that wait.", overview.n_queued
    yield "relaylite_requests_total", "counter", "Requests that came.", t.requests
    yield "relaylite_requests_cancelled_total", "counter", "Requests whose client left.", t.cancelled
    yield "relaylite_requests_failed_total", "counter", "Requests that failed.", t.failed
    yield "relaylite_prompt_tokens_total", "counter", "Prompt tokens, taken over or computed.", t.prompt_tokens
    yield "relaylite_prefix_tokens_total", "counter", "Prompt tokens taken over in place.", t.prefix_tokens
    yield "relaylite_relayed_tokens_total", "counter", "Prompt tokens taken over from another place.", t.relayed_tokens
    yield "relaylite_computed_tokens_total", "counter", "Prompt tokens that were computed.", t.computed_tokens
    yield "relaylite_parallel", "gauge", "Requests that may run in turns.", overview.n_parallel


def _rate(n: int, seconds: float) -> float:
    return n / seconds if seconds else 0.0
