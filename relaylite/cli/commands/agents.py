"""`relaylite agents`: who a chain can be made of."""

from __future__ import annotations

from dataclasses import asdict

import click

from relaylite.chain.agents import load_agents
from relaylite.cli import options
from relaylite.cli.command import Command
from relaylite.cli.document import Document
from relaylite.cli.terminal import Output
from relaylite.settings.settings import Settings
from relaylite.terminal_text import fit_for_terminal


@click.command("agents", cls=Command, examples=("relaylite agents", "relaylite agents --agents-file mine.toml --json"))
@options.setting_options("agents_file")
@options.json_option
def command(settings: Settings, document: Document) -> None:
    """List the agents that a chain can be made of, with their instructions.

    Agents of your own stand in agents.toml in the config folder (`relaylite config` shows where) or in the file of --agents-file.
    Installed packages can bring agents too (docs/plugins.md).
    """
    output = Output()
    agents = load_agents(settings.agents_file, output.notice)
    document.value = [asdict(agent) for agent in agents.values()]
    if document.is_wanted:
        return
    for agent in agents.values():
        output.line(f"{agent.name} (reads {agent.reads})", color=agent.color)
        for line in click.wrap_text(fit_for_terminal(agent.instructions), 100, "    ", "    ").splitlines():
            output.line(line)
