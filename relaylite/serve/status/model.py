"""`/health`, `/v1/models` and `/props`: whether the model is loaded, and what it is."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from relaylite.serve.dialects.chat import FINGERPRINT
from relaylite.serve.service import Service, service_of


async def health(request: Request) -> Response:
    _ = service_of(request).completions
    return JSONResponse({"status": "ok"})


async def models(request: Request) -> Response:
    return JSONResponse({"object": "list", "data": [_model(service_of(request))]})


async def one_model(request: Request) -> Response:
    """Whatever name is asked for: it names what is loaded."""
    return JSONResponse(_model(service_of(request)))


async def props(request: Request) -> Response:
    service = service_of(request)
    info, overview = service.completions.info, service.completions.overview()
    return JSONResponse(
        {
            "default_generation_settings": {
                "n_ctx": info.n_ctx,
                "params": {**asdict(service.sampling), "n_predict": service.sampling.max_tokens},
            },
            "total_slots": overview.n_parallel,
            "model_path": info.path,
            "model_alias": info.name,
            "modalities": {"vision": False, "audio": False},
            "build_info": FINGERPRINT,
            "relay": {"policy": service.policy.label, "refusal": info.relay_refusal, "prefix_reuse": info.prefix_reuse},
        }
    )


def _model(service: Service) -> dict[str, Any]:
    info = service.completions.info
    meta = {"n_vocab": info.n_vocab, "n_ctx": info.n_ctx, "n_ctx_train": info.n_ctx_train, "n_embd": info.n_embd}
    return {
        "id": info.name,
        "object": "model",
        "created": service.started_at,
        "owned_by": "relaylite",
        "meta": {**meta, "n_params": info.n_params, "size": info.file_bytes},
    }
