"""`main` in `__init__.py`: the command line, with a module for each command in `commands/`, imported when it is asked for.

To add a command: a module `relaylite/cli/commands/NAME.py` with a click command called `command`, and a line in `COMMANDS`.
"""

from __future__ import annotations

import click

from relaylite.cli.command import CONTEXT
from relaylite.cli.group import CommandGroup

# name: what `relaylite --help` says of it
COMMANDS = {
    "run": "Let agents answer a task in turn.",
    "chat": "Talk to a chain of agents.",
    "serve": "Serve a model over HTTP to programs that use OpenAI's interface.",
    "info": "Say what a model is and whether it can relay.",
    "models": "List, fetch, find and remove models.",
    "sessions": "List and remove saved conversations.",
    "store": "Show, check or clear the rows kept on disk.",
    "agents": "List the agents that a chain can be made of.",
    "profile": "Measure how a model is repaired best, and keep that for its runs.",
    "bench": "Measure what each policy costs and keeps on task files.",
    "worker": "Hold layers of models for relaylite on other machines.",
    "config": "Show every setting, its value and where that came from.",
    "doctor": "Check this installation and say what to do about it.",
}

EXAMPLES = (
    'relaylite run "Write a function that merges two sorted lists." --agents plan,code,review',
    "relaylite chat --agents plan,code,review",
    "relaylite info qwen3-4b",
    "relaylite COMMAND --help",
)


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        click.echo(f"relaylite {version('relaylite')}")
        context.exit()


@click.group(cls=CommandGroup, commands_by_name=COMMANDS, package="relaylite.cli.commands", examples=EXAMPLES, context_settings=CONTEXT)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version.")
def main() -> None:
    """Chains of agents on one local GGUF model, in which each agent takes over the KV rows of the agents before it."""
