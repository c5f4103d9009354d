"""`relaylite store`: the rows kept on disk."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from relaylite import paths
from relaylite.cli import options
from relaylite.cli.terminal import Output
from relaylite.config import load_settings
from relaylite.errors import RelayliteError

if TYPE_CHECKING:
    from relaylite.store.folder import RowFolder


@click.group("store", invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@options.json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Show what rows are kept on disk and what they saved, over all runs and models."""
    if context.invoked_subcommand is not None:
        return
    stats = _folder().stats()
    if as_json:
        click.echo(json.dumps(asdict(stats), ensure_ascii=False, indent=2))
        return
    output = Output()
    output.line(f"{stats.folder}: {stats.disk_bytes / 1e6:.1f} of {stats.disk_budget_bytes / 1e6:.0f} MB")
    output.line(f"{stats.spans} spans, {stats.tokens} tokens, {stats.models} model{'' if stats.models == 1 else 's'}")
    output.line(f"{stats.hits} hits took over {stats.hit_tokens} tokens and saved {stats.seconds_saved:.1f} s of prefill")


@command.command("clear")
def clear() -> None:
    """Remove all rows on disk, of all models."""
    from relaylite.store.folder import CannotWrite

    folder = _folder()
    try:
        click.echo(f"removed {folder.clear() / 1e6:.1f} MB")
    except CannotWrite as error:
        raise RelayliteError(f"{folder.path} could not be cleared; is another relaylite writing there? {error}") from error


@command.command("verify")
@options.json_option
def verify(as_json: bool) -> None:
    """Read every file whole and remove the damaged ones; exit code 1 if there were any."""
    n_right, damaged = _folder().verify()
    if as_json:
        click.echo(json.dumps({"right": n_right, "removed": damaged}, indent=2))
    else:
        click.echo(f"{n_right} files are right" + "".join(f"\n{name} was damaged and is removed" for name in damaged))
    if damaged:
        raise click.exceptions.Exit(1)


def _folder() -> RowFolder:
    from relaylite.store.folder import RowFolder

    settings = load_settings().store
    return RowFolder(settings.folder or paths.store_folder(), settings.disk)
