"""`relaylite sessions`: kept conversations: list, search, rename, remove, restore."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

import click

from relaylite import paths
from relaylite.chain import sessions
from relaylite.cli import options
from relaylite.cli.command import Command, Group
from relaylite.cli.document import Document
from relaylite.cli.terminal import Output
from relaylite.errors import UsageError
from relaylite.plugins import exporters

FIRST_MESSAGE = 48  # characters of it that are shown


@click.group(
    "sessions",
    cls=Group,
    invoke_without_command=True,
    examples=(
        "relaylite sessions",
        "relaylite sessions --search 'sorted lists'",
        "relaylite chat --session work",
        "relaylite sessions rename work lists",
        "relaylite sessions rm work",
        "relaylite sessions restore work",
    ),
)
@click.option("--search", metavar="TEXT", default="", help="Only those with this text in name, messages or answers.")
@options.json_option
@click.pass_context
def command(context: click.Context, document: Document, search: str) -> None:
    """List kept conversations, the last one first."""
    if context.invoked_subcommand is not None:
        return
    found = sessions.sessions(search)
    document.value = [asdict(session) for session in found]
    if document.is_wanted:
        return
    output = Output()
    if not found:
        output.note(f"no session holds {search!r}" if search else "no sessions yet; `relaylite chat --session NAME` begins one")
    width = max((len(session.name) for session in found), default=0)
    for session in found:
        output.line(f"{session.name.ljust(width)}  {_about(session)}")


@command.command(
    "export", cls=Command, examples=("relaylite sessions export work", "relaylite sessions export work --as json -o work.json")
)
@click.argument("name")
@click.option("--as", "format_name", metavar="FORMAT", default="markdown", help="markdown, json, or a format that a plugin brings.")
@click.option("-o", "--output", "file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write it to FILE.")
def export(name: str, format_name: str, file: Path | None) -> None:
    """Print the conversation NAME in a format for people or other programs."""
    output = Output()
    conversation = sessions.load(name)
    if conversation is None:
        raise UsageError(f"there is no session {name!r}; `relaylite sessions` lists them")
    text = exporters.export(conversation, format_name, exporters.load_exporters(output.notice))
    if file is None:
        output.write(text)
        output.end_line()
    else:
        with paths.replacing(file, mode=0o666) as written:
            written.write_text(text, encoding="utf-8", errors="replace")


@command.command("rename")
@click.argument("name")
@click.argument("new_name")
def rename(name: str, new_name: str) -> None:
    """Give the conversation NAME the name NEW_NAME."""
    sessions.rename(name, new_name)
    Output().line(f"renamed {name} to {new_name}")


@command.command("rm")
@click.argument("name")
@click.option("--forever", is_flag=True, help="Delete it, so that it cannot be restored.")
def remove(name: str, forever: bool) -> None:
    """Remove the conversation NAME; it can be restored until another one of that name is removed."""
    output = Output()
    sessions.remove(name)
    if forever:
        sessions.erase(name)
    output.line(f"removed {name}")
    if not forever:
        output.note(f"`relaylite sessions restore {name}` brings it back")


@command.command("restore")
@click.argument("name")
def restore(name: str) -> None:
    """Bring back the conversation NAME that was removed."""
    sessions.restore(name)
    Output().line(f"restored {name}")


def _about(session: sessions.SessionEntry) -> str:
    """When it was changed, how long it is, its agents, and how it begins."""
    changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(session.changed_s))
    message = " ".join(session.first_message.split())
    said = message if len(message) <= FIRST_MESSAGE else message[: FIRST_MESSAGE - 1] + "…"
    rounds = f"{session.n_rounds} message{'' if session.n_rounds == 1 else 's'}" if session.agents else "damaged"
    return f"{changed}  {rounds}{', open' if session.is_open else ''}  {','.join(session.agents)}  {said}".rstrip()
