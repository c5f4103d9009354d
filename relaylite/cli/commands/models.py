"""`relaylite models`: the catalogue, and model files on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import click

from relaylite.cli import options
from relaylite.cli.command import Group
from relaylite.cli.document import Document
from relaylite.cli.interrupts import Work
from relaylite.cli.terminal import Output
from relaylite.errors import UsageError
from relaylite.gguf.catalog import CatalogEntry, find_entry, find_remote, load_catalog, resolve_model

HEADINGS = ("", "name", "weights", "file", "context", "licence", "good for (* is on this machine)")


@click.group(
    "models",
    cls=Group,
    examples=("relaylite models list", "relaylite models pull qwen3-4b", 'relaylite run "A haiku about rain." -m qwen3-4b -a write'),
)
def command() -> None:
    """List, fetch, find and remove models.

    MODEL is a name from the list or hf:owner/repo/file.gguf. Files lie in the Hugging Face cache, which other tools share.
    """


@command.command("list")
@options.json_option
def list_models(document: Document) -> None:
    """Show the catalogue, and which of its models are on this machine."""
    entries = list(load_catalog().values())
    document.value = [_to_dict(entry) for entry in entries]
    if document.is_wanted:
        return
    rows = [HEADINGS, *map(_row, entries)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    output = Output()
    for row in rows:
        output.line("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    output.note("* is on this machine; `relaylite models pull NAME` fetches another one")


@command.command("pull")
@click.argument("model")
@options.talk_options
def pull(model: str, quiet: bool, verbose: bool) -> None:
    """Fetch MODEL, check it and print its path.

    A download that was interrupted goes on where it stopped.
    """
    output = Output(quiet=quiet)
    found: list[str] = []

    def work(post: Callable[[tuple[str, int, int]], None]) -> None:
        if not _is_here(model):
            find_remote(model)
        found.append(str(resolve_model(model, lambda *step: post(step))))

    stopped = "stopped; what was fetched is kept, the same command goes on from there"
    for name, done, total in Work(work, kept=lambda: stopped, tick=output.tick):
        output.download(name, done, total)
    output.end_progress()
    output.line(found[0])


@command.command("path")
@click.argument("model")
def path(model: str) -> None:
    """Print the path of MODEL; exit code 2 if it is not on this machine."""
    from relaylite.gguf import download

    entry = find_entry(model)
    place = entry.path() if entry else download.cached(find_remote(model))
    if place is None:
        raise UsageError(f"{model} is not on this machine; `relaylite models pull {model}` fetches it")
    Output().line(str(place))


@command.command("rm")
@click.argument("model")
def remove(model: str) -> None:
    """Remove MODEL from this machine.

    What an interrupted download of it left goes too.
    """
    from relaylite.gguf import download

    freed = download.remove(find_remote(model))
    if not freed:
        raise UsageError(f"{model} is not on this machine")
    Output().line(f"removed {model}: {freed / 1e6:.1f} MB")


def _is_here(model: str) -> bool:
    entry = find_entry(model)
    return entry is not None and entry.path() is not None


def _row(entry: CatalogEntry) -> tuple[str, ...]:
    size, context = f"{entry.bytes / 1e9:.1f} GB", f"{entry.context // 1024}k"
    return ("*" if entry.path() else " ", entry.name, entry.params, size, context, entry.licence, entry.use)


def _to_dict(entry: CatalogEntry) -> dict[str, object]:
    place = entry.path()
    return {**asdict(entry), "path": str(place) if place else None}
