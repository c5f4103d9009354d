"""Pointers of llama.cpp that may have been freed."""

from __future__ import annotations

from typing import Any

from relaylite.errors import EngineClosed


def still_open(pointer: Any) -> Any:
    """`pointer`, or EngineClosed if it is None: llama.cpp ends the process if it is given what was freed."""
    if pointer is None:
        raise EngineClosed("the model is closed; open it again")
    return pointer
