"""`relaylite run`: agents answer one task in turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from relaylite.agents import Agent, choose_agents, load_agents
from relaylite.attachments import Attachment, read_attachment
from relaylite.cli import options
from relaylite.cli.interrupts import Terminated, Work
from relaylite.cli.narrator import Narrator
from relaylite.cli.opening import open_relay
from relaylite.cli.tasks import read_task
from relaylite.cli.terminal import Output
from relaylite.config import Settings
from relaylite.errors import RelayliteError

if TYPE_CHECKING:
    from relaylite.chain import Chain
    from relaylite.events import Event


@click.command("run")
@click.argument("task", required=False)
@click.option("--task-file", type=click.Path(path_type=Path), metavar="FILE", help="Read the task from a file; - is standard input.")
@options.file_option
@click.option("--last", is_flag=True, help="Print the last agent's answer only.")
@options.setting_options(*options.CHAIN, *options.MODEL)
@options.json_option
@options.talk_options
def command(
    task: str | None,
    task_file: Path | None,
    files: tuple[str, ...],
    settings: Settings,
    as_json: bool,
    last: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Let agents answer TASK in turn, each reading what those before it wrote.

    Answers go to stdout; figures and notes go to stderr.
    """
    output = Output(quiet=quiet)

    def read() -> Request:
        return Request(read_task(task, task_file), [read_attachment(file) for file in files], chosen_agents(settings))

    if as_json:
        _run_as_json(read, settings, output, verbose)
        return
    request = read()
    with open_relay(settings, output, verbose=verbose) as relay:
        chain = relay.chain(request.agents)
        try:
            _follow(chain, request, output, shows_answers=not last)
        finally:
            output.end_line()
        if last:
            output.write(chain.result.text)
            output.end_line()


@dataclass(frozen=True, slots=True)
class Request:
    """What a run is asked for."""

    task: str
    files: list[Attachment]
    agents: tuple[Agent, ...]


def chosen_agents(settings: Settings) -> tuple[Agent, ...]:
    """The agents that the settings name, with sampling values of flags and variables before their own."""
    chosen = choose_agents(settings.agents, load_agents(settings.agents_file))
    return tuple(agent.with_sampling(settings.forced_sampling()) for agent in chosen)


def events_of(chain: Chain, start: Callable[[], Any]) -> Work[Event]:
    """The events of a run that `start` begins, with Ctrl-C and SIGTERM cancelling it."""

    def work(post: Callable[[Event], None]) -> None:
        for event in start():
            post(event)

    return Work(work, chain.cancel)


def _follow(chain: Chain, request: Request, output: Output, *, shows_answers: bool) -> None:
    narrator = Narrator(output, chain.agents, shows_answers=shows_answers)
    for event in events_of(chain, lambda: chain.stream(request.task, files=request.files)):
        narrator.show(event)


def _run_as_json(read: Callable[[], Request], settings: Settings, output: Output, verbose: bool) -> None:
    """One document whatever happens; on a failure its `error` says why and `agents` holds what was written until then."""
    document: dict[str, Any] = {"model": settings.model, "policy": settings.policy, "agents": []}
    error: str | None = None
    try:
        request = read()
        with open_relay(settings, output, verbose=verbose) as relay:
            chain = relay.chain(request.agents)
            try:
                _follow(chain, request, output, shows_answers=False)
            finally:
                document = chain.result.to_dict()
    except RelayliteError as failure:
        error = str(failure)
        raise
    except (KeyboardInterrupt, Terminated):
        error = "stopped"
        raise
    finally:
        click.echo(json.dumps({**document, "error": error}, ensure_ascii=False, indent=2))
