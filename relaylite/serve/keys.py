"""`Keys`: the API keys that clients may use, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from starlette.datastructures import Headers


class Keys:
    """No keys at all: everyone may come in."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._digests = [_digest(key) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def admits(self, given: str) -> bool:
        """Takes as long for a wrong key as for a right one."""
        digest = _digest(given)
        return bool(sum([hmac.compare_digest(digest, known) for known in self._digests])) or not self._digests

    def tenant_of(self, headers: Headers) -> str:
        """A name for whoever holds this key, which does not tell the key; "" where no keys are asked for."""
        return _digest(given_key(headers)).hex()[:16] if self else ""


def given_key(headers: Headers) -> str:
    """The key in `Authorization: Bearer …` or `X-Api-Key: …`; "" if there is none."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else headers.get("x-api-key", "").strip()


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogateescape")).digest()
