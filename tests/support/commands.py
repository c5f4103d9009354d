"""What tests of commands share: the type of the `invoke` fixture, and how a failure must look."""

from __future__ import annotations

from collections.abc import Callable

from click.testing import Result

Invoke = Callable[..., Result]


def one_line(result: Result) -> str:
    """What a failing command said: one line on stderr."""
    assert result.stderr.startswith("relaylite: ") and result.stderr.endswith("\n") and result.stderr.count("\n") == 1, result.stderr
    return result.stderr.removeprefix("relaylite: ").rstrip("\n")
