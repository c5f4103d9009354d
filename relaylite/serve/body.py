"""`read_body`: the JSON object that a client sent, within limits of size, time and depth."""

from __future__ import annotations

import asyncio
import json
import re
from typing import NoReturn

from starlette.requests import ClientDisconnect, Request

from relaylite.serve.errors import ApiError
from relaylite.serve.fields import Fields

MAX_BYTES = 16 * 2**20
TIME_LIMIT_S = 60.0
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_CLOSE = {"connection": "close"}


async def read_body(request: Request) -> Fields:
    """Raises ApiError 413, 415, 408 or 400 for a body that is too large, of another type, too slow, or no JSON object."""
    _check_headers(request)
    try:
        data = await asyncio.wait_for(_bytes(request), TIME_LIMIT_S)
    except TimeoutError as error:
        raise ApiError(408, f"the body did not arrive within {TIME_LIMIT_S:.0f} s", headers=_CLOSE) from error
    except ClientDisconnect as error:
        raise ApiError(400, "the client left before the body had arrived") from error
    return Fields(_parsed(data))


def _check_headers(request: Request) -> None:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise ApiError(415, f"the body must be JSON: send Content-Type: application/json, not {kind}", headers=_CLOSE)
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise ApiError(415, f"the body must not be compressed, but is {coding}", headers=_CLOSE)
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length[:20]) > MAX_BYTES:
        raise _too_large()


async def _bytes(request: Request) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BYTES:
            raise _too_large()
    return bytes(data)


def _too_large() -> ApiError:
    return ApiError(413, f"the body is larger than {MAX_BYTES // 2**20} MiB", headers=_CLOSE)


def _parsed(data: bytes) -> object:
    try:
        value: object = json.loads(data.decode(), parse_constant=_no_json)
        if _SURROGATE.search(data):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ApiError(400, "the body holds half a character (a lone surrogate)") from error
    except UnicodeDecodeError as error:
        raise ApiError(400, "the body is not valid UTF-8") from error
    except RecursionError as error:
        raise ApiError(400, "the body is nested too deeply") from error
    except ValueError as error:
        raise ApiError(400, f"the body is not valid JSON: {error}") from error
    return value


def _no_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")
