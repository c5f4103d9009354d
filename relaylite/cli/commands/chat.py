"""`relaylite chat`: a conversation with a chain. On a terminal the Textual app, else (or with --plain) lines in, lines out."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext

import click

from relaylite.chain.agents import agents_of
from relaylite.chain.attachments import Attachment, read_attachment
from relaylite.chain.session import Session, go_on_with
from relaylite.cli import options
from relaylite.cli.command import Command
from relaylite.cli.fitting import suggest_once
from relaylite.cli.group import BY_SIGNAL
from relaylite.cli.interrupts import Terminated, lost_worker
from relaylite.cli.opening import open_relay
from relaylite.cli.plain_chat import PlainChat
from relaylite.cli.terminal import Output
from relaylite.errors import RelayliteError
from relaylite.settings.settings import Settings

EXAMPLES = (
    "relaylite chat --agents plan,code,review",
    "relaylite chat --session work --model qwen3-4b",
    "printf 'Name a colour.\\nAnother one.\\n' | relaylite chat --agents solve",
)


@click.command("chat", cls=Command, examples=EXAMPLES)
@click.option("--plain", is_flag=True, help="Read and write lines, also on a terminal.")
@click.option("--session", metavar="NAME", help="Go on with the conversation NAME, or begin it. It is kept after every answer.")
@options.file_option
@options.setting_options(*options.CHAIN, *options.MODEL)
@options.talk_options
def command(plain: bool, session: str | None, files: tuple[str, ...], settings: Settings, quiet: bool, verbose: bool) -> int:
    """Talk to a chain of agents; each keeps its history.

    On a terminal this opens an app. Elsewhere, with TERM=dumb, or with --plain, each line read is a message. Files go with the first
    message. A conversation on a terminal is kept also without --session, unless the setting keep says otherwise.
    """
    kept = Session(session) if session is not None else Session() if settings.keep and sys.stdin.isatty() else None
    with kept or nullcontext():
        return _talk(settings, kept, files, plain=plain, quiet=quiet, verbose=verbose)


def _talk(settings: Settings, kept: Session | None, files: tuple[str, ...], *, plain: bool, quiet: bool, verbose: bool) -> int:
    saved = kept.saved() if kept is not None else None
    output = Output(quiet=quiet)
    agents, attached = agents_of(settings, output.notice), [read_attachment(file) for file in files]
    if not plain and sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        return _in_app(settings, kept, attached)
    if kept is not None:
        kept.check_writable()
    with open_relay(settings, output, verbose=verbose) as relay:
        chain = relay.chain_from_dict(saved) if saved is not None else relay.chain(agents)
        if saved is not None:
            go_on_with(chain, settings)
        chain.session = kept
        code = PlainChat(chain, output, attached).run()
    suggest_once(settings, output)
    return code


def _in_app(settings: Settings, session: Session | None, attached: list[Attachment]) -> int:
    from relaylite.tui import run_app

    code = run_app(settings, session=session, files=attached)
    if code > BY_SIGNAL:
        if lost := lost_worker():  # the app had the terminal when that was said
            raise RelayliteError(lost)
        raise Terminated(number=code - BY_SIGNAL)
    return code
