"""Which models of the catalogue fit the memory that is free on this machine, and the hint that the first run ends with."""

from __future__ import annotations

import sys
from contextlib import suppress

from relaylite import paths
from relaylite.cli.terminal import Output
from relaylite.errors import RelayliteError
from relaylite.gguf.catalog import DEFAULT, CatalogEntry, find_entry, load_catalog
from relaylite.machine.resources import available_bytes
from relaylite.settings.settings import Settings

_MORE_SHARE, _MORE_BYTES = 0.15, 500_000_000  # what a context of a few thousand tokens and computing take beside the weights
_EASY_BYTES = 3_000_000_000  # larger models write slowly without a GPU


def needed_bytes(entry: CatalogEntry) -> int:
    """About what the model takes in memory with a context of a few thousand tokens; `relaylite info` says it exactly."""
    return int(entry.bytes * (1 + _MORE_SHARE)) + _MORE_BYTES


def fits(entry: CatalogEntry) -> bool:
    """Whether the memory that is free now is enough for it."""
    return needed_bytes(entry) <= available_bytes()


def suggested() -> CatalogEntry | None:
    """The largest model that fits and still writes fast enough without a GPU; None if the default is that."""
    entries = [entry for entry in load_catalog().values() if fits(entry) and entry.bytes <= _EASY_BYTES]
    best = max(entries, key=lambda entry: entry.bytes, default=None)
    return best if best is not None and best != find_entry(DEFAULT) else None


def is_read() -> bool:
    """Whether what is said on stderr is for a person."""
    return sys.stderr.isatty()


def suggest_once(settings: Settings, output: Output) -> None:
    """After the first run with the default model, say once which model is better. Nothing where a model was named, or nobody reads it."""
    mark = paths.data_folder() / "suggested-a-model"
    if output.quiet or not is_read() or "model" in settings.sources or mark.exists():
        return
    entry = suggested()
    if entry is None:
        return
    with suppress(OSError, RelayliteError):  # where nothing can be kept, it is said again
        paths.ensure(mark.parent)
        mark.touch()
    fetch = "is here" if entry.path() else f"`relaylite models pull {entry.name}` fetches it ({entry.bytes / 1e9:.1f} GB)"
    output.note(
        f"this was the small demo model; {entry.name} writes better and fits this machine's memory: {fetch}, --model {entry.name} uses it"
    )
