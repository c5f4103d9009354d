"""`Sampling`: how the next token is chosen and when an answer ends. Values only; `engine/llama/sampler.py` makes llama.cpp's samplers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relaylite.errors import UsageError

MAX_SEED = 2**32 - 2  # llama.cpp takes 2**32 - 1 for "choose one yourself"
MAX_BIAS = 100


@dataclass(frozen=True, slots=True)
class Sampling:
    """Checked values: anything outside its range raises UsageError in one line that names value and range.

    - `temperature`: 0 always takes the token that is likeliest after all penalties. `top_k`: 0 keeps all tokens.
    - `repeat_penalty` (1 is none) weakens a token that was used, however often. `presence_penalty` is subtracted from its logit once,
      `frequency_penalty` as often as it was used; negative ones favour it. All three count the last `penalty_last_n` tokens of prompt and
      answer together, as llama.cpp's server does; -1 counts all of them.
    - DRY weakens a token that would go on with a sequence that was there before, by `dry_multiplier * dry_base ** (n - dry_allowed_length)`
      if the last `n` tokens repeat it; 0 as `dry_multiplier` is off. It looks at the last `dry_penalty_last_n` tokens of prompt and answer
      (-1: at all), and no sequence goes over a line's end, a colon, a double quote or an asterisk.
    - `logit_bias`: pairs of a token id and what is added to its logit, from -100 to 100; -100 bans the token.
    - `ends_loops`: a chain ends an answer that only repeats itself any more (`chain/loops.py` says when that is sure).
    - `max_tokens`: -1 means until the context is full. An answer ends before the first of the `stop` strings.
    """

    temperature: float = 0.0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = 64
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = 64
    logit_bias: tuple[tuple[int, float], ...] = ()
    ends_loops: bool = False
    seed: int = 0
    max_tokens: int = 512
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_number("temperature", self.temperature, 0, 10)
        _check_whole("top_k", self.top_k, 0, 2**31 - 1)
        _check_number("top_p", self.top_p, 0, 1)
        _check_number("min_p", self.min_p, 0, 1)
        _check_number("repeat_penalty", self.repeat_penalty, 0.01, 10)
        _check_number("frequency_penalty", self.frequency_penalty, -2, 2)
        _check_number("presence_penalty", self.presence_penalty, -2, 2)
        _check_whole("penalty_last_n", self.penalty_last_n, -1, 2**31 - 1)
        _check_number("dry_multiplier", self.dry_multiplier, 0, 100)
        _check_number("dry_base", self.dry_base, 1, 100)
        _check_whole("dry_allowed_length", self.dry_allowed_length, 0, 2**31 - 1)
        _check_whole("dry_penalty_last_n", self.dry_penalty_last_n, -1, 2**31 - 1)
        object.__setattr__(self, "logit_bias", _checked_bias(self.logit_bias))
        if not isinstance(self.ends_loops, bool):
            raise UsageError(f"ends_loops must be true or false, not {self.ends_loops!r}")
        _check_whole("seed", self.seed, 0, MAX_SEED)
        _check_whole("max_tokens", self.max_tokens, -1, 2**31 - 1)
        object.__setattr__(self, "stop", _checked_stop(self.stop))

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0

    @property
    def has_penalties(self) -> bool:
        """Whether the choice depends on how often a token was used."""
        is_off = (self.repeat_penalty, self.frequency_penalty, self.presence_penalty) == (1, 0, 0)
        return not is_off and self.penalty_last_n != 0

    @property
    def has_dry(self) -> bool:
        return self.dry_multiplier > 0 and self.dry_penalty_last_n != 0

    def values(self) -> dict[str, Any]:
        """All values by their names."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def merged(self, overrides: Mapping[str, Any]) -> Sampling:
        """These values with `overrides` in their place. Raises UsageError for an unknown name or a value out of range."""
        known = [field.name for field in dataclasses.fields(self)]
        for name in overrides:
            if name not in known:
                raise UsageError(f"unknown sampling value {name!r}; known: {', '.join(known)}")
        return dataclasses.replace(self, **overrides) if overrides else self


def _check_number(name: str, value: object, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise UsageError(f"{name} must be a number from {low} to {high}, not {value!r}")


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise UsageError(f"{name} must be a whole number from {low} to {high}, not {value!r}")


def _checked_stop(value: object) -> tuple[str, ...]:
    """`value` as a tuple; one string stands for itself."""
    strings = (value,) if isinstance(value, str) else value
    if not isinstance(strings, list | tuple) or not all(isinstance(text, str) and text for text in strings):
        raise UsageError(f"stop must be a list of texts that are not empty, not {value!r}")
    return tuple(strings)


def _checked_bias(value: object) -> tuple[tuple[int, float], ...]:
    pairs = [tuple(pair) if isinstance(pair, list | tuple) else () for pair in value] if isinstance(value, list | tuple) else [()]
    for pair in pairs:
        if len(pair) != 2:
            raise UsageError(f"logit_bias must be pairs of a token id and a number, not {value!r}")
        _check_whole("a token id in logit_bias", pair[0], 0, 2**31 - 1)
        _check_number(f"logit_bias of token {pair[0]}", pair[1], -MAX_BIAS, MAX_BIAS)
    if len({token for token, _ in pairs}) < len(pairs):
        raise UsageError(f"logit_bias must be pairs that name each token once, not {value!r}")
    return tuple((token, float(bias)) for token, bias in pairs)
