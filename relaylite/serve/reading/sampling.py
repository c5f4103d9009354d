"""`read_sampling`: how the answer is sampled, by the names that OpenAI and llama-server give to the values."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

from relaylite.errors import UsageError
from relaylite.sampling import MAX_BIAS, MAX_SEED, Sampling
from relaylite.serve.errors import ApiError
from relaylite.serve.fields import Fields, kind_of
from relaylite.serve.interface import CompletionsLike

LENGTHS = ("max_completion_tokens", "max_output_tokens", "max_tokens", "n_predict")  # the first one that is given counts
NUMBERS = ("temperature", "top_p", "min_p", "repeat_penalty", "frequency_penalty", "presence_penalty", "dry_multiplier", "dry_base")
WHOLE = ("dry_allowed_length", "dry_penalty_last_n")
MAX_STOPS = 64
MAX_BIASES = 1024


def read_sampling(body: Fields, defaults: Sampling, completions: CompletionsLike, *, stops: str = "stop") -> Sampling:
    """`defaults` with what the body says; without a seed anywhere, one is drawn. `stops`: the field with the stop strings.

    Raises ApiError for what is out of range.
    """
    top_k = body.whole("top_k")
    read: dict[str, Any] = {
        **{name: body.number(name) for name in NUMBERS},
        **{name: body.whole(name) for name in WHOLE},
        "penalty_last_n": body.whole("repeat_last_n"),
        "top_k": None if top_k is None else max(top_k, 0),  # llama-server's -1 keeps all, too
        "max_tokens": _length(body),
        "stop": _stop(body, stops) or None,
        "logit_bias": tuple(_biases(body, completions)) or None,
        "seed": _seed(body, defaults),
    }
    values = {name: value for name, value in read.items() if value is not None}
    try:
        return defaults.merged(values)
    except UsageError as error:
        named = next((name for name in values if name in str(error)), None)
        raise ApiError(400, str(error), named) from error


def _length(body: Fields) -> int | None:
    """-1: until the context is full."""
    name = next((name for name in LENGTHS if body.raw(name) is not None), "")
    length = body.whole(name)
    if length is not None and (length < -1 or length == 0):
        raise body.refuse(name, f"must be a whole number of at least 1, not {length}")
    return length


def _stop(body: Fields, name: str) -> tuple[str, ...]:
    """Empty ones end nothing."""
    value = body.raw(name)
    stops = [value] if isinstance(value, str) else body.list(name)
    if not all(isinstance(stop, str) for stop in stops) or len(stops) > MAX_STOPS:
        raise body.refuse(name, f"must be a text or a list of at most {MAX_STOPS} texts")
    return tuple(stop for stop in stops if stop)


def _seed(body: Fields, defaults: Sampling) -> int:
    seed = body.whole("seed")
    if seed is None or seed == -1:
        return defaults.seed or secrets.randbelow(MAX_SEED)
    return seed % (MAX_SEED + 1)


def _biases(body: Fields, completions: CompletionsLike) -> Iterator[tuple[int, float]]:
    """From an object (id as text: bias) or a list of pairs (id or text, bias or false for never)."""
    value = body.raw("logit_bias")
    pairs = [(int(id) if id.isdecimal() else id, bias) for id, bias in value.items()] if isinstance(value, dict) else value
    if value is not None and not isinstance(pairs, list):
        raise body.refuse("logit_bias", f"must be an object or a list of pairs, not {kind_of(value)}")
    if len(pairs or ()) > MAX_BIASES:
        raise body.refuse("logit_bias", f"must have at most {MAX_BIASES} entries")
    for pair in pairs or ():
        yield from _bias(body, completions, pair)


def _bias(body: Fields, completions: CompletionsLike, pair: object) -> Iterator[tuple[int, float]]:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise body.refuse("logit_bias", "must hold pairs of a token and a number")
    token, bias = pair
    if bias is False:
        bias = -MAX_BIAS
    if isinstance(bias, bool) or not isinstance(bias, int | float) or not abs(bias) <= MAX_BIAS:
        raise body.refuse("logit_bias", f"must give each token a number from -{MAX_BIAS} to {MAX_BIAS}")
    if isinstance(token, bool) or not isinstance(token, int | str):
        raise body.refuse("logit_bias", "must name tokens by their ids")
    ids = [token] if isinstance(token, int) else completions.tokenize(token, parse_special=False)
    for id in ids:
        if not 0 <= id < (completions.info.n_vocab or id + 1):
            raise body.refuse("logit_bias", f"names token {id}, which this model does not have")
        yield id, float(bias)
