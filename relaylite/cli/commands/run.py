"""`relaylite run`: agents answer one task in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from relaylite.chain.agents import Agent, choose_agents, load_agents
from relaylite.chain.attachments import Attachment, read_attachment
from relaylite.cli import options
from relaylite.cli.command import Command
from relaylite.cli.document import Document
from relaylite.cli.interrupts import Work
from relaylite.cli.narrator import Narrator
from relaylite.cli.opening import open_relay
from relaylite.cli.tasks import read_task
from relaylite.cli.terminal import Output
from relaylite.metrics import FINISH_CANCELLED
from relaylite.settings.settings import Settings

if TYPE_CHECKING:
    from relaylite.chain.chain import Chain
    from relaylite.events import Event

EXAMPLES = (
    'relaylite run "Write a function that merges two sorted lists." --agents plan,code,review',
    "git diff | relaylite run --agents review --last",
    'relaylite run "What does it promise?" --file contract.md --agents summarize,critic --model qwen3-4b',
    "relaylite run --task-file task.md --policy relay:careful --json > result.json",
)


@click.command("run", cls=Command, examples=EXAMPLES)
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
    document: Document,
    last: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Let agents answer TASK in turn, each reading what those before it wrote.

    Answers go to stdout; figures and notes go to stderr.
    """
    output = Output(quiet=quiet)
    document.value = {"model": settings.model, "policy": settings.policy, "agents": [], "error": None}
    request = Request(read_task(task, task_file), [read_attachment(file) for file in files], chosen_agents(settings))
    with open_relay(settings, output, verbose=verbose) as relay:
        chain = relay.chain(request.agents)
        try:
            _follow(chain, request, output, shows_answers=not (last or document.is_wanted))
        finally:
            output.end_line()
            document.value = {**chain.result.to_dict(), "error": None}
        if last and not document.is_wanted:
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

    return Work(work, chain.cancel, lambda: kept_of(chain))


def kept_of(chain: Chain) -> str:
    """What there is of the last message's answers when a run is stopped."""
    turns = chain.rounds[-1].turns if chain.rounds else []
    names = [turn.agent + (" (cut short)" if turn.finish_reason == FINISH_CANCELLED else "") for turn in turns]
    return f"stopped; kept: {', '.join(names)}" if names else "stopped before anything was written"


def _follow(chain: Chain, request: Request, output: Output, *, shows_answers: bool) -> None:
    narrator = Narrator(output, chain.agents, shows_answers=shows_answers)
    for event in events_of(chain, lambda: chain.stream(request.task, files=request.files)):
        narrator.show(event)
