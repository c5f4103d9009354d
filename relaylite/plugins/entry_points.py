"""Entry points of other installed packages, loaded one by one. What fails is left out with one notice; it never ends the command."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from relaylite.errors import RelayliteError

AGENTS = "relaylite.agents"
EXPORTERS = "relaylite.exporters"

Notify = Callable[[str], None]
T = TypeVar("T")


def warn(line: str) -> None:
    """The notice of scripts, which have no screen of ours: Python's warning."""
    warnings.warn(line, stacklevel=2)


def load_plugins(group: str, read: Callable[[object], T], notify: Notify) -> list[tuple[EntryPoint, T]]:
    """The entry points of `group` by name, each with what `read` makes of the object that it names.

    Code of other packages runs here. `read` raises UsageError if the object is not what the group asks for. Each entry point that cannot
    be loaded or read is one call of `notify`, in one line.
    """
    loaded: list[tuple[EntryPoint, T]] = []
    try:
        points = sorted(entry_points(group=group), key=lambda point: (point.name, point.value))
    except Exception as error:  # the metadata of any installed package may be damaged
        notify(f"plugins cannot be looked for: {_words(error)}")
        return []
    for point in points:
        try:
            loaded.append((point, read(point.load())))
        except (Exception, SystemExit) as error:  # whatever code of another package raises
            notify(f"plugin {point.name} of {package_of(point)} is left out: {_words(error)}")
    return loaded


def package_of(point: EntryPoint) -> str:
    """The name of the package that brings it."""
    return point.dist.name if point.dist is not None else point.module


def _words(error: BaseException) -> str:
    says = " ".join(str(error).split())
    return says if isinstance(error, RelayliteError) else f"{type(error).__name__}: {says}".removesuffix(": ")
