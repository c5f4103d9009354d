"""`relaylite run`: agents answer one task in turn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from relaylite.chain.attachments import Attachment, read_attachment
from relaylite.cli import options
from relaylite.cli.chains import agents_of, events_of
from relaylite.cli.command import Command
from relaylite.cli.document import Document
from relaylite.cli.narrator import Narrator
from relaylite.cli.opening import open_relay
from relaylite.cli.tasks import has_unread_input, read_task
from relaylite.cli.terminal import Output
from relaylite.errors import UsageError
from relaylite.settings.settings import Settings

if TYPE_CHECKING:
    from relaylite.chain.chain import Chain

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
    """Let agents answer TASK in turn; each reads what those before it wrote.

    Answers go to stdout; figures and notes go to stderr.
    """
    if last and document.is_wanted:
        raise UsageError("--last does nothing with --json, which prints all answers; leave one out")
    output = Output(quiet=quiet)
    document.value = {"model": settings.model, "policy": settings.policy, "agents": [], "error": None}
    text, attached, agents = read_task(task, task_file), [read_attachment(file) for file in files], agents_of(settings, output)
    narrator = Narrator(output, agents, shows_answers=not (last or document.is_wanted))
    with open_relay(settings, output, verbose=verbose) as relay:
        if has_unread_input():  # asked late: what writes it takes its time too
            output.note("note: standard input is not read, since the task is given; attach it with --file /dev/stdin")
        chain = relay.chain(agents)
        try:
            _show(chain, text, attached, narrator)
        finally:
            output.end_line()
            document.value = {**chain.result.to_dict(), "error": None}
        if last:
            output.write(chain.result.text)
            output.end_line()


def _show(chain: Chain, task: str, files: list[Attachment], narrator: Narrator) -> None:
    for event in events_of(chain, lambda: chain.stream(task, files=files)):
        narrator.show(event)
