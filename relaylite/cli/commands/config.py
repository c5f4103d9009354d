"""`relaylite config`: every setting, what it is now, and where that came from."""

from __future__ import annotations

from pathlib import Path

import click

from relaylite import paths
from relaylite.cli import options
from relaylite.cli.command import Command
from relaylite.cli.document import Document
from relaylite.cli.terminal import Output
from relaylite.settings.settings import describe, load_settings, shown


@click.command("config", cls=Command, examples=("relaylite config", "RELAYLITE_POLICY=prefix relaylite config --json"))
@options.json_option
def command(document: Document) -> None:
    """Show every setting, its value and where that came from.

    A flag goes before a RELAYLITE_* variable, that before ./relaylite.toml, and that before config.toml in the config folder.
    """
    settings = load_settings()
    rows = []
    for name, about, _ in describe():
        table, _, key = name.rpartition(".")
        value = getattr(getattr(settings, table) if table else settings, key)
        rows.append({"name": name, "value": value, "source": settings.sources.get(name, "default"), "about": about})
    document.value = [{**row, "value": str(row["value"]) if isinstance(row["value"], Path) else row["value"]} for row in rows]
    if document.is_wanted:
        return
    output = Output()
    for row in rows:
        output.line(f"{row['name']} = {shown(row['name'], row['value'])}  ({row['source']})")
        output.line(f"    {row['about']}")
    output.line(f"settings file: {paths.settings_file()}")
    output.line(f"agents file: {paths.agents_file()}")
