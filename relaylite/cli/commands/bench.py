"""`relaylite bench`: every policy on the same prompts, and what each costs and keeps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from relaylite.chain.agents import Agent
from relaylite.cli import options
from relaylite.cli.chains import agents_of
from relaylite.cli.command import Command
from relaylite.cli.document import Document
from relaylite.cli.opening import open_engine
from relaylite.cli.progress import OnProgress, with_progress
from relaylite.cli.terminal import Output
from relaylite.errors import UsageError
from relaylite.reuse.policies import LABELS
from relaylite.settings.settings import Settings

if TYPE_CHECKING:
    from relaylite.bench.bench import Bench
    from relaylite.bench.options import BenchOptions
    from relaylite.bench.sample import Sample
    from relaylite.bench.tasks import Task
    from relaylite.engine.engine import Engine

EXAMPLES = (
    "relaylite bench --tasks gsm8k.jsonl --n 10",
    "relaylite bench --tasks gsm8k.jsonl --relayed 256,1024 --plots pictures --json",
)
TASKS = "Tasks for the chains: GSM8K, HumanEval (JSON lines) or MMLU (CSV)."
POLICIES = (
    "Policies to measure. Also epic:K, cacheblend:SHARE, random:SHARE, everything. relay@q6-q4 reads smaller rows; "
    "relay+max_share=0.1 changes a parameter of the model's profile."
)
RELAYED = "Measure at these lengths of relayed text, in tokens, instead of the chain's own answers."
ANSWERS = "Have every policy write the last answer too, and count the right ones."
EXECUTE = "Run programs that the model wrote, to judge them. There are limits of time and memory, but no sandbox."


@click.command("bench", cls=Command, examples=EXAMPLES)
@click.option("--tasks", "tasks_file", type=click.Path(path_type=Path), required=True, metavar="FILE", help=TASKS)
@click.option("--n", type=click.IntRange(1), default=30, show_default=True, metavar="N", help="How many chains.")
@click.option("--policies", default=",".join(LABELS), show_default=True, metavar="P,P,…", help=POLICIES)
@click.option("--relayed", metavar="N,N,…", help=RELAYED)
@click.option("--max-tokens", type=click.IntRange(33), default=256, show_default=True, metavar="N", help="Tokens of each answer.")
@click.option("--cold", is_flag=True, help="A first visit: the instructions of the agent that reads were never seen before.")
@click.option("--answers/--no-answers", default=True, help=ANSWERS)
@click.option("--execute", is_flag=True, help=EXECUTE)
@click.option("--plots", type=click.Path(path_type=Path), metavar="FOLDER", help="Write pictures (SVG) there.")
@options.setting_options("agents", "agents_file", *options.MODEL)
@options.json_option
@options.talk_options
def command(
    tasks_file: Path, n: int, policies: str, relayed: str | None, max_tokens: int, cold: bool, answers: bool, execute: bool,
    plots: Path | None, settings: Settings, document: Document, quiet: bool, verbose: bool,
) -> None:  # fmt: skip
    """Run every policy on the same prompts, in turn, and say what each costs and keeps against a full prefill.

    Chains are made from the tasks. An agent writes, with all of its prompt computed; then each policy prefills what the next agent
    reads. By default the text before the first relayed answer was seen before, as in a conversation that goes on.
    docs/results.md explains the figures.
    """
    from relaylite.bench.bench import Bench
    from relaylite.bench.chains import ChainOptions
    from relaylite.bench.methods import parse_methods
    from relaylite.bench.options import BenchOptions
    from relaylite.bench.report import document as report_of
    from relaylite.bench.tasks import read_tasks

    output = Output(quiet=quiet)
    tasks, lengths = read_tasks(tasks_file), _lengths(relayed)
    wanted = BenchOptions(ChainOptions(max_tokens=max_tokens, is_warm=not cold), relayed=lengths, judges=answers, executes=execute)
    about: dict[str, Any] = {"tasks": {"file": tasks_file.name, "kind": tasks[0].kind, "chains": 0}}
    samples: list[Sample] = []
    try:
        methods = parse_methods(policies)
        with open_engine(settings, output, n_ctx=_context_for(wanted), verbose=verbose) as engine:
            about |= _about(engine, settings, wanted)
            bench = Bench(engine, methods, _agents(settings, output), wanted)
            try:
                _measure(bench, tasks, n, output, samples)
            finally:
                about["tasks"]["chains"] = bench.n_chains
    finally:
        document.value = report_of(samples, about)
        if samples and not document.is_wanted:
            _show(document.value, output)
        if samples and plots is not None:
            _draw(document.value, plots, output)


def _lengths(text: str | None) -> tuple[int, ...]:
    """`128,256` as numbers, ascending, each once."""
    if text is None:
        return ()
    try:
        lengths = {int(part) for part in text.split(",")}
    except ValueError as error:
        raise UsageError(f"--relayed: {text!r} is no number of tokens, nor several with commas") from error
    if min(lengths) < 32 or max(lengths) > 1 << 20:
        raise UsageError("--relayed: relayed text needs 32 tokens or more: less is not taken over")
    return tuple(sorted(lengths))


def _context_for(wanted: BenchOptions) -> int:
    """Tokens of context that hold the longest prompt, its template and an answer."""
    return max(4096, (max(wanted.relayed, default=0) * 5 // 4 + 1024 + wanted.chains.max_tokens) // 256 * 256)


def _agents(settings: Settings, output: Output) -> tuple[Agent, ...] | None:
    """Those of the command line; None if it names none: what settings say is for runs, a benchmark takes those that fit its tasks."""
    return agents_of(settings, output) if settings.sources.get("agents", "").startswith("--") else None


def _measure(bench: Bench, tasks: list[Task], n: int, output: Output, samples: list[Sample]) -> None:
    """Adds to `samples` as they come, so that those of a stopped benchmark are there. Raises UsageError if there are none."""

    def run(on_progress: OnProgress) -> None:
        for found in bench.run(tasks, n, on_progress):
            samples.extend(found)

    with_progress(run, bench.cancel, output)
    if bench.n_skipped:
        output.note(f"{bench.n_skipped} prompts held no relayed text and were left out")
    if not samples:
        raise UsageError("no prompt held relayed text: the agents' answers are too short; try another model or --agents")


def _about(engine: Engine, settings: Settings, wanted: BenchOptions) -> dict[str, Any]:
    from relaylite.bench import machine

    return {
        "model": machine.model(engine),
        "settings": {
            "is_warm": wanted.chains.is_warm,
            "max_tokens": wanted.chains.max_tokens,
            "relayed": list(wanted.relayed),
            "followed_tokens": wanted.n_follow,
            "threads": settings.threads,  # null: one a physical core
        },
        "machine": machine.machine(),
        "versions": machine.versions(),
        "command": machine.command(),
    }


def _show(report: dict[str, Any], output: Output) -> None:
    """A table for each group of prompts, if there are several, and one for all of them."""
    from relaylite.bench.report import table

    groups = [(group["group"], group) for group in report["groups"]] if len(report["groups"]) > 1 else []
    for name, group in [*groups, ("all", report)]:
        tokens = f"{group['prefix_tokens']:.0f} prefix, {group['relayed_tokens']:.0f} relayed and {group['new_tokens']:.0f} new tokens"
        output.line(f"{name}: {group['n_prompts']} prompts of {tokens} (medians)")
        for line in [*table(group["rows"]), ""]:
            output.line(line)


def _draw(report: dict[str, Any], folder: Path, output: Output) -> None:
    from relaylite.bench.figures import svg
    from relaylite.bench.plots import figures_of

    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures_of(report):
        (folder / f"{name}.svg").write_text(svg(figure), encoding="utf-8")
        output.note(f"wrote {folder / name}.svg")
