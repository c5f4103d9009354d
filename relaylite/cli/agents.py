"""`relaylite agents`: who a chain can be made of."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from relaylite.agents import load_agents
from relaylite.cli import options
from relaylite.cli.terminal import Output
from relaylite.config import Settings


@click.command("agents")
@options.setting_options("agents_file")
@options.json_option
def command(settings: Settings, as_json: bool) -> None:
    """List the agents that a chain can be made of, with their instructions.

    Your own stand in agents.toml in the config folder (`relaylite config` shows where) or in --agents-file.
    """
    agents = load_agents(settings.agents_file)
    output = Output()
    if as_json:
        click.echo(json.dumps([asdict(agent) for agent in agents.values()], ensure_ascii=False, indent=2))
        return
    for agent in agents.values():
        output.line(f"{agent.name} (reads {agent.reads})", color=agent.color)
        output.write(click.wrap_text(agent.instructions, 100, "    ", "    ") + "\n")
