"""docs/man: a man page for each command, made from what `--help` says."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from inspect import cleandoc
from pathlib import Path

import click
from click_man.man import ManPage
from pages import DOCS

from relaylite.cli import main
from relaylite.cli.command import Command, Group

FOLDER = DOCS / "man"


def files() -> dict[Path, str]:
    return {FOLDER / f"{context.command_path.replace(' ', '-')}.1": page_of(context) for context in contexts(main, "relaylite", None)}


def contexts(command: click.Command, name: str, parent: click.Context | None) -> Iterator[click.Context]:
    """The command's own, then those of the commands below it."""
    context = click.Context(command, info_name=name, parent=parent)
    yield context
    for below, each in commands_below(context):
        yield from contexts(each, below, context)


def commands_below(context: click.Context) -> list[tuple[str, click.Command]]:
    if not isinstance(context.command, click.Group):
        return []
    named = ((name, context.command.get_command(context, name)) for name in context.command.list_commands(context))
    return [(name, command) for name, command in named if command is not None and not command.hidden]


def page_of(context: click.Context) -> str:
    command = context.command
    page = ManPage(context.command_path)
    page.version, page.date = version("relaylite"), ""  # no date: the same page whenever it is made
    page.short_help = for_roff(command.get_short_help_str(limit=200))
    page.description = for_roff(cleandoc(command.help or ""))
    page.synopsis = " ".join(command.collect_usage_pieces(context))
    records = [param.get_help_record(context) for param in command.get_params(context) if isinstance(param, click.Option)]
    page.options = [(option, for_roff(says)) for option, says in filter(None, records)]
    page.commands = [(name, for_roff(each.get_short_help_str(limit=200))) for name, each in commands_below(context)]
    return str(page) + examples_of(command)


def examples_of(command: click.Command) -> str:
    examples = command.examples if isinstance(command, Command | Group) else ()
    return "".join([".SH EXAMPLES\n.nf\n", *(for_roff(example) + "\n" for example in examples), ".fi\n"]) if examples else ""


def for_roff(text: str) -> str:
    """`text` as roff prints it: no line of it is a request, no backslash an escape, a hyphen can be copied."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in lines)
