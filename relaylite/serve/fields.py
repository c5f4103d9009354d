"""`Fields`: a JSON object from a client, read field by field. Every wrong type is an ApiError that names the field."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from relaylite.serve.errors import ApiError

_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number", type(None): "null"}


def kind_of(value: object) -> str:
    return _KINDS.get(type(value), "something else")


class Fields:
    """A field that is missing and one that is null are the same: None. Fields that nobody reads are ignored."""

    def __init__(self, value: object, path: str = "") -> None:
        if not isinstance(value, Mapping):
            raise ApiError(400, f"{path or 'the body'} must be an object, not {kind_of(value)}", path or None)
        self._values, self._path = value, path

    def path(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def raw(self, name: str) -> Any:
        return self._values.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def refuse(self, name: str, says: str) -> ApiError:
        """The error about a field: its name and what it must be."""
        return ApiError(400, f"{self.path(name)} {says}", self.path(name))

    def _wrong(self, name: str, wanted: str) -> ApiError:
        return self.refuse(name, f"must be {wanted}, not {kind_of(self.raw(name))}")

    def text(self, name: str) -> str | None:
        value = self.raw(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, "a text")
        return value

    def needed_text(self, name: str) -> str:
        value = self.text(name)
        if value is None:
            raise self.refuse(name, "is missing")
        return value

    def flag(self, name: str) -> bool:
        value = self.raw(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return bool(value)

    def number(self, name: str) -> float | None:
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
            raise self._wrong(name, "a number")
        return float(value)

    def whole(self, name: str) -> int | None:
        """A whole number; 5.0 is one too, since some clients know floats only."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value) or value != int(value):
            raise self._wrong(name, "a whole number")
        return int(value)

    def fields(self, name: str) -> Fields:
        """The object in a field; an empty one if there is none."""
        value = self.raw(name)
        return Fields({} if value is None else value, self.path(name))

    def list(self, name: str) -> list[Any]:
        value = self.raw(name)
        if value is not None and not isinstance(value, list):
            raise self._wrong(name, "a list")
        return value or []

    def objects(self, name: str) -> Iterator[Fields]:
        for i, item in enumerate(self.list(name)):
            yield Fields(item, f"{self.path(name)}[{i}]")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond what a float holds
        return False
