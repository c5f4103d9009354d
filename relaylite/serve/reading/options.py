"""What else a body says of its request: reuse, whose rows it may share, how many answers, and in what form."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request

from relaylite.errors import UsageError
from relaylite.reuse.policies import FIDELITIES, Policy, parse_policy
from relaylite.serve.errors import ApiError
from relaylite.serve.fields import Fields
from relaylite.serve.service import Service

POLICY_HEADER, FIDELITY_HEADER = "x-relay-policy", "x-relay-fidelity"
LATER = "is not supported yet by this server; leave it out"


def new_id(prefix: str) -> str:
    return f"{prefix}{secrets.token_hex(16)}"


def read_policy(request: Request, body: Fields, default: Policy) -> Policy:
    """`"relay": {"policy": …, "fidelity": …}` of the body, then the headers, then the default."""
    chosen = body.fields("relay")
    name = chosen.text("policy") or request.headers.get(POLICY_HEADER)
    fidelity = chosen.text("fidelity") or request.headers.get(FIDELITY_HEADER)
    if fidelity is not None and fidelity not in FIDELITIES:
        raise ApiError(400, f"unknown fidelity {fidelity!r}; known: {', '.join(FIDELITIES)}", "relay.fidelity")
    try:
        policy = default if name is None else parse_policy(name)
    except UsageError as error:
        raise ApiError(400, str(error), "relay.policy") from error
    named_both = name is not None and ":" in name
    return policy if fidelity is None or named_both or not policy.repairs else replace(policy, fidelity=fidelity)


def read_scope(body: Fields, tenant: str) -> str:
    """Who may share rows: the same key and the same `cache_salt`. "" where there is neither."""
    salt = body.text("cache_salt")
    if not tenant and not salt:
        return ""
    return hashlib.sha256(f"{tenant}\0{salt or ''}".encode()).hexdigest()[:32]


def request_options(request: Request, body: Fields, service: Service) -> Mapping[str, Any]:
    """The arguments of `CompletionRequest` that every dialect reads in the same way."""
    tenant = service.keys.tenant_of(request.headers)
    return {"policy": read_policy(request, body, service.policy), "scope": read_scope(body, tenant)}


def read_n(body: Fields) -> int:
    n = body.whole("n")
    return 1 if n is None else n


def refuse_unsupported(body: Fields) -> None:
    """What needs structured output or tools. Raises ApiError; to ignore it would give an answer of another kind than was asked for."""
    wants_tools = body.list("tools") or body.list("functions")
    if wants_tools and body.raw("tool_choice") != "none":
        raise body.refuse("tools" if body.raw("tools") else "functions", LATER)
    for name, inside in (("response_format", ""), ("text", "format")):
        form = body.fields(name).fields(inside) if inside else body.fields(name)
        kind = form.text("type")
        if kind not in (None, "text"):
            raise form.refuse("type", f"{kind!r} {LATER}")
    for name in ("grammar", "json_schema", "guided_json", "guided_grammar", "guided_regex", "guided_choice", "structured_outputs"):
        if body.raw(name):
            raise body.refuse(name, LATER)
