"""How many log probabilities a body asks for, by OpenAI's chat form and by its older one."""

from __future__ import annotations

from relaylite.engine.interface import MAX_LOGPROBS
from relaylite.serve.fields import Fields


def read_chat_logprobs(body: Fields) -> int | None:
    """`logprobs: true`, with `top_logprobs` likeliest tokens beside each one. None: none are wanted."""
    wanted, top = body.flag("logprobs"), body.whole("top_logprobs")
    if top is not None and not 0 <= top <= MAX_LOGPROBS:
        raise body.refuse("top_logprobs", f"must be from 0 to {MAX_LOGPROBS}, not {top}")
    if top and not wanted:
        raise body.refuse("top_logprobs", "requires logprobs to be set to true")
    return (top or 0) if wanted else None


def read_count(body: Fields, name: str) -> int | None:
    """The number of likeliest tokens that `name` asks for; None if it asks for none."""
    if isinstance(body.raw(name), bool):
        return 0 if body.raw(name) else None
    n = body.whole(name)
    if n is not None and not 0 <= n <= MAX_LOGPROBS:
        raise body.refuse(name, f"must be from 0 to {MAX_LOGPROBS}, not {n}")
    return n
