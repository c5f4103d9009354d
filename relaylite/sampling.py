"""`Sampling`: how the next token is chosen and when an answer ends. Values only; llama.cpp's samplers are built in `llama.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relaylite.errors import UsageError

MAX_SEED = 2**32 - 2  # llama.cpp takes 2**32 - 1 for "choose one yourself"


@dataclass(frozen=True, slots=True)
class Sampling:
    """Checked values: anything outside its range raises UsageError in one line that names value and range.

    `temperature` 0 always takes the likeliest token; `top_k` 0 keeps all tokens; `repeat_penalty` 1 is none; `max_tokens` -1 means until
    the context is full; an answer ends before the first of the `stop` strings.
    """

    temperature: float = 0.0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    seed: int = 0
    max_tokens: int = 512
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_number("temperature", self.temperature, 0, 10)
        _check_whole("top_k", self.top_k, 0, 2**31 - 1)
        _check_number("top_p", self.top_p, 0, 1)
        _check_number("min_p", self.min_p, 0, 1)
        _check_number("repeat_penalty", self.repeat_penalty, 0.01, 10)
        _check_whole("seed", self.seed, 0, MAX_SEED)
        _check_whole("max_tokens", self.max_tokens, -1, 2**31 - 1)
        object.__setattr__(self, "stop", _checked_stop(self.stop))

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0

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
