"""`relaylite config`: every setting, what it is now, and where that came from."""

from __future__ import annotations

import json

import click

from relaylite import paths
from relaylite.cli import options
from relaylite.cli.terminal import Output
from relaylite.config import describe, load_settings, shown


@click.command("config")
@options.json_option
def command(as_json: bool) -> None:
    """Show every setting, its value and where that came from.

    Precedence: flag, RELAYLITE_* variable, ./relaylite.toml, config.toml in the config folder.
    """
    settings = load_settings()
    rows = []
    for name, about, _ in describe():
        table, _, key = name.rpartition(".")
        value = getattr(getattr(settings, table) if table else settings, key)
        rows.append({"name": name, "value": value, "source": settings.sources.get(name, "default"), "about": about})
    if as_json:
        click.echo(json.dumps(rows, default=str, ensure_ascii=False, indent=2))
        return
    output = Output()
    for row in rows:
        output.line(f"{row['name']} = {shown(row['name'], row['value'])}  ({row['source']})")
        output.write(f"    {row['about']}\n")
    output.line(f"settings file: {paths.settings_file()}")
    output.line(f"agents file: {paths.agents_file()}")
