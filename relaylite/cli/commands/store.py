"""`relaylite store`: the rows kept on disk."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from relaylite import paths
from relaylite.cli import options
from relaylite.cli.command import Group
from relaylite.cli.document import Document
from relaylite.cli.terminal import Output
from relaylite.errors import RelayliteError
from relaylite.settings.settings import load_settings

if TYPE_CHECKING:
    from relaylite.store.folder import RowFolder


@click.group(
    "store",
    cls=Group,
    invoke_without_command=True,
    examples=("relaylite store", "relaylite store verify", "RELAYLITE_STORE_DISK=10GiB relaylite run --task-file task.md"),
)
@options.json_option
@click.pass_context
def command(context: click.Context, document: Document) -> None:
    """Show how many rows are kept on disk, and how much prefill they saved in all runs with all models."""
    if context.invoked_subcommand is not None:
        return
    stats = _folder().stats()
    document.value = asdict(stats)
    if document.is_wanted:
        return
    output = Output()
    output.line(f"{stats.folder}: {stats.disk_bytes / 1e6:.1f} of {stats.disk_budget_bytes / 1e6:.0f} MB")
    output.line(f"{stats.spans} spans, {stats.tokens} tokens, {stats.models} model{'' if stats.models == 1 else 's'}")
    output.line(f"{stats.hits} hits took over {stats.hit_tokens} tokens and saved {stats.seconds_saved:.1f} s of prefill")


@command.command("clear")
def clear() -> None:
    """Remove the rows of all models from disk."""
    from relaylite.store.folder import CannotWrite

    folder = _folder()
    try:
        Output().line(f"removed {folder.clear() / 1e6:.1f} MB")
    except CannotWrite as error:
        raise RelayliteError(f"{folder.path} could not be cleared; is another relaylite writing there? {error}") from error


@command.command("verify")
@options.json_option
def verify(document: Document) -> None:
    """Check every file and remove damaged ones.

    Exit code 1 if there were any.
    """
    n_right, damaged = _folder().verify()
    document.value = {"right": n_right, "removed": damaged}
    if not document.is_wanted:
        output = Output()
        output.line(f"{n_right} files are right")
        for name in damaged:
            output.line(f"{name} was damaged and is removed")
    if damaged:
        raise click.exceptions.Exit(1)


def _folder() -> RowFolder:
    from relaylite.store.folder import RowFolder

    settings = load_settings().store
    return RowFolder(settings.folder or paths.store_folder(), settings.disk)
