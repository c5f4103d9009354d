"""`relaylite sessions`: conversations that `relaylite chat --session NAME` keeps."""

from __future__ import annotations

import time
from dataclasses import asdict

import click

from relaylite.chain import sessions
from relaylite.cli import options
from relaylite.cli.command import Group
from relaylite.cli.document import Document
from relaylite.cli.terminal import Output

FIRST_MESSAGE = 48  # characters of it that are shown


@click.group(
    "sessions",
    cls=Group,
    invoke_without_command=True,
    examples=("relaylite sessions", "relaylite chat --session work", "relaylite sessions rm work"),
)
@options.json_option
@click.pass_context
def command(context: click.Context, document: Document) -> None:
    """List saved conversations, the last one first."""
    if context.invoked_subcommand is not None:
        return
    found = sessions.sessions()
    document.value = [asdict(session) for session in found]
    if document.is_wanted:
        return
    output = Output()
    if not found:
        output.note("no sessions yet; `relaylite chat --session NAME` begins one")
    width = max((len(session.name) for session in found), default=0)
    for session in found:
        output.line(f"{session.name.ljust(width)}  {_about(session)}")


@command.command("rm")
@click.argument("name")
def remove(name: str) -> None:
    """Remove the conversation NAME."""
    sessions.remove(name)
    Output().line(f"removed {name}")


def _about(session: sessions.Session) -> str:
    """When it was changed, how long it is, its agents, and how it begins."""
    changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(session.changed_s))
    message = " ".join(session.first_message.split())
    said = message if len(message) <= FIRST_MESSAGE else message[: FIRST_MESSAGE - 1] + "…"
    rounds = f"{session.n_rounds} message{'' if session.n_rounds == 1 else 's'}" if session.agents else "damaged"
    return f"{changed}  {rounds}  {','.join(session.agents)}  {said}".rstrip()
