"""Readers of single values: what a TOML file, an environment variable or a flag may hold, and what it means.

A reader takes the raw value, text or already typed, and returns the value, or raises ValueError with what it must be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from relaylite.paths import expanded

Reader = Callable[[object], Any]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def text(raw: object) -> str:
    if not isinstance(raw, str) or not raw.strip():
        raise ValueError("must be a text")
    if "\0" in raw:
        raise ValueError("must be a text without NUL")
    return raw


def folder_or_file(raw: object) -> Path:
    return expanded(text(str(raw) if isinstance(raw, Path) else raw))


def boolean(raw: object) -> bool:
    known = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    value = raw if isinstance(raw, bool) else known.get(raw.lower()) if isinstance(raw, str) else None
    if value is None:
        raise ValueError("must be true or false")
    return value


def integer(low: int | None = None, high: int | None = None) -> Reader:
    """Whole numbers in `[low, high]`, both ends included."""

    def read(raw: object) -> int:
        try:
            value = int(raw) if isinstance(raw, str) else raw
        except ValueError:
            value = None
        if not isinstance(value, int) or isinstance(value, bool) or not _within(value, low, high):
            raise ValueError(f"must be an integer{_span(low, high)}")
        return value

    return read


def number(low: float | None = None, high: float | None = None) -> Reader:
    """Finite numbers in `[low, high]`, both ends included."""

    def read(raw: object) -> float:
        try:
            value = float(raw) if isinstance(raw, str | int | float) and not isinstance(raw, bool) else math.nan
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or not _within(value, low, high):
            raise ValueError(f"must be a number{_span(low, high)}")
        return value

    return read


def choice(options: Iterable[str]) -> Reader:
    known = tuple(options)

    def read(raw: object) -> str:
        if raw not in known:
            raise ValueError(f"must be one of {', '.join(known)}")
        return str(raw)

    return read


def names(raw: object) -> tuple[str, ...]:
    """Texts from a list, or from one text with commas between them."""
    items = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) and "\0" not in item for item in items):
        raise ValueError("must be a list of names")
    found = tuple(item.strip() for item in items if item.strip())
    if not found:
        raise ValueError("must be a list of names")
    return found


def adapters(raw: object) -> tuple[str, ...]:
    """LoRA files, with or without a scale, from a list or from one text with commas between them; none in an empty one."""
    try:
        return () if raw in ("", [], ()) else names(raw)
    except ValueError:
        raise ValueError("must be FILE or FILE:SCALE, several with commas between them") from None


def addresses(raw: object) -> tuple[str, ...]:
    """Places in a network, `host:port` each, from a list or from one text with commas between them."""
    found = names(raw)
    for address in found:
        host, _, port = address.partition(":")
        if not host or not (port.isascii() and port.isdigit()) or not 1 <= int(port) <= 65535:
            raise ValueError("must be host:port, several with commas between them (no IPv6)")
    return found


def texts(raw: object) -> tuple[str, ...]:
    """Texts from a list, or a single one; nothing is trimmed or split."""
    items = (raw,) if isinstance(raw, str) else raw
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) and item for item in items):
        raise ValueError("must be a list of texts")
    return tuple(items)


def size(raw: object) -> int:
    """Bytes, from an integer or a text such as `512MiB`, `4 GB` or `0`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?", raw.strip().lower()) if isinstance(raw, str) else None
    value = int(float(match[1]) * _UNITS[match[2] or ""]) if match else raw
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("must be a size such as 512MiB or 4GiB")
    return value


def size_text(n: int) -> str:
    """Bytes as `size` reads them, in the largest unit that has a whole number of them."""
    for unit in ("TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "KB"):
        factor = _UNITS[unit.removesuffix("B").lower()]
        if n and n % factor == 0:
            return f"{n // factor} {unit}"
    return str(n)


def table(raw: object) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise ValueError("must be a table")
    return dict(raw)


def _within(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def _span(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f" from {low} to {high}"
    return f" of at least {low}" if low is not None else f" of at most {high}" if high is not None else ""
