"""`/slots` and `/relay/requests`: which requests wait and run, and what became of the last ones."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from relaylite.completion.overview import RequestState
from relaylite.serve.service import service_of


async def slots(request: Request) -> Response:
    """llama-server's list: an entry for each request that may run, whether one does or not."""
    completions = service_of(request).completions
    n_parallel, n_ctx = completions.overview().n_parallel, completions.info.n_ctx
    running = [each for each in service_of(request).requests_of(request) if each.state in ("prefill", "writing")]
    shown = [*running, *[None] * n_parallel][: max(n_parallel, len(running))]
    return JSONResponse([_slot(i, n_ctx, each) for i, each in enumerate(shown)])


async def requests(request: Request) -> Response:
    """What the page at `/` shows."""
    service = service_of(request)
    overview = service.completions.overview()
    return JSONResponse(
        {
            "model": service.model,
            "n_ctx": service.completions.info.n_ctx,
            "n_parallel": overview.n_parallel,
            "n_queued": overview.n_queued,
            "totals": asdict(overview.totals),
            "requests": [asdict(each) for each in service.requests_of(request)],
        }
    )


def _slot(id: int, n_ctx: int, state: RequestState | None) -> dict[str, Any]:
    slot: dict[str, Any] = {"id": id, "n_ctx": n_ctx, "speculative": False, "is_processing": state is not None}
    if state is not None:
        slot |= {"id_task": state.id, "next_token": [{"n_decoded": state.generated_tokens}], "relay": asdict(state)}
    return slot
