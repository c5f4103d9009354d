"""`relaylite chat`: a conversation with a chain. On a terminal the Textual app, else (or with --plain) lines in, lines out."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from relaylite.chain import sessions
from relaylite.chain.attachments import Attachment, read_attachment
from relaylite.cli import options
from relaylite.cli.chains import agents_of
from relaylite.cli.command import Command
from relaylite.cli.group import BY_SIGNAL
from relaylite.cli.interrupts import Terminated, lost_worker
from relaylite.cli.opening import open_relay
from relaylite.cli.plain_chat import PlainChat
from relaylite.cli.terminal import Output
from relaylite.errors import RelayliteError
from relaylite.settings.settings import Settings

if TYPE_CHECKING:
    from relaylite.api import Relay
    from relaylite.chain.agents import Agent
    from relaylite.chain.chain import Chain

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
    message.
    """
    saved = sessions.load(session) if session is not None else None
    output = Output(quiet=quiet)
    agents, attached = agents_of(settings, output), [read_attachment(file) for file in files]
    if not plain and sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        return _in_app(settings, session, attached)
    with open_relay(settings, output, verbose=verbose) as relay:
        chain = _resumed(relay, saved, settings, agents) if saved is not None else relay.chain(agents)
        return PlainChat(chain, output, attached, keep=lambda: _keep(chain, session)).run()


def _in_app(settings: Settings, session: str | None, attached: list[Attachment]) -> int:
    from relaylite.tui import run_app

    code = run_app(settings, session=session, files=attached)
    if code > BY_SIGNAL:
        if lost := lost_worker():  # the app had the terminal when that was said
            raise RelayliteError(lost)
        raise Terminated(number=code - BY_SIGNAL)
    return code


def _resumed(relay: Relay, saved: Mapping[str, Any], settings: Settings, agents: Sequence[Agent]) -> Chain:
    """The conversation as it was saved, but for agents and policy that flags or variables name."""
    chain = relay.chain_from_dict(saved)
    if settings.is_forced("agents"):
        chain.agents = agents
    if settings.is_forced("policy") or settings.is_forced("fidelity"):
        chain.policy = relay.policy
    return chain


def _keep(chain: Chain, session: str | None) -> None:
    if session is not None:
        sessions.save(session, chain.to_dict())
