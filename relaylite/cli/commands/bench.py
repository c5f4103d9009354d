"""`relaylite bench`: every policy on the same prompts, and what each costs and keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from relaylite.cli import options
from relaylite.cli.command import Command
from relaylite.cli.document import Document
from relaylite.cli.interrupts import Work
from relaylite.cli.opening import open_engine
from relaylite.cli.terminal import Output, bar
from relaylite.errors import UsageError
from relaylite.settings.settings import Settings

if TYPE_CHECKING:
    from relaylite.bench.measuring import Bench, BenchOptions, Sample
    from relaylite.bench.tasks import Task
    from relaylite.engine.engine import Engine

DEFAULT_POLICIES = "full,prefix,naive,relay:fast,relay,relay:careful"


class _Lengths(click.ParamType[tuple[int, ...]]):
    """`250` or `128,256,512`."""

    name = "N,N,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        try:
            lengths = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is no number of tokens, nor several with commas", param, ctx)
        if min(lengths) < 32 or max(lengths) > 1 << 20:
            self.fail("relayed text needs 32 tokens or more: less is not taken over", param, ctx)
        return tuple(sorted(set(lengths)))


@click.command(
    "bench",
    cls=Command,
    examples=(
        "relaylite bench --tasks gsm8k.jsonl --n 10",
        "relaylite bench --tasks gsm8k.jsonl --relayed 256,1024 --plots pictures --json",
    ),
)
@click.option(
    "--tasks",
    "tasks_file",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="GSM8K, HumanEval (JSON lines) or MMLU (CSV).",
)
@click.option("--n", type=click.IntRange(1), default=30, show_default=True, help="How many chains.")
@click.option(
    "--policies",
    default=DEFAULT_POLICIES,
    show_default=True,
    help="Also epic:K, cacheblend:SHARE, random:SHARE, everything; relay@q6-q4 reads smaller rows.",
)
@click.option(
    "--relayed", type=_Lengths(), default=None, help="Measure at these lengths of relayed text instead of the chain's own answers."
)
@click.option("--max-tokens", type=click.IntRange(33), default=256, show_default=True, help="Tokens of each answer.")
@click.option("--cold", is_flag=True, help="A first visit: the reading agent's instructions were never seen before.")
@click.option("--answers/--no-answers", default=True, help="Have every policy write the last answer and count the right ones.")
@click.option("--execute", is_flag=True, help="Run programs that the model wrote, to judge them (limits, but no sandbox).")
@click.option("--plots", type=click.Path(path_type=Path), metavar="FOLDER", help="Write pictures (SVG) there.")
@options.setting_options("agents", "agents_file", *options.MODEL)
@options.json_option
@options.talk_options
def command(
    tasks_file: Path, n: int, policies: str, relayed: tuple[int, ...] | None, max_tokens: int, cold: bool, answers: bool, execute: bool,
    plots: Path | None, settings: Settings, document: Document, quiet: bool, verbose: bool,
) -> None:  # fmt: skip
    """Run every policy on the very same prompts, in turn, and say what each costs and keeps against a full prefill.

    Chains are made from the tasks: agents write, exactly computed; then what the next agent reads is prefilled by each policy. By
    default the text before the first relayed answer was seen before, as in a conversation that goes on. docs/results.md explains
    the figures.
    """
    from relaylite.bench.chains import ChainOptions
    from relaylite.bench.measuring import BenchOptions
    from relaylite.bench.tasks import read_tasks

    output = Output(quiet=quiet)
    tasks = read_tasks(tasks_file)
    chains = ChainOptions(max_tokens=max_tokens, is_warm=not cold)
    wanted = BenchOptions(chains, relayed=relayed or (), judges=answers, executes=execute)
    about: dict[str, Any] = {"tasks": {"file": tasks_file.name, "kind": tasks[0].kind, "chains": 0}}
    samples: list[Sample] = []
    try:
        n_ctx = max(4096, (max(wanted.relayed, default=0) * 5 // 4 + 1024 + max_tokens) // 256 * 256)
        with open_engine(settings, output, n_ctx=n_ctx, verbose=verbose) as engine:
            about |= _about(engine, settings, wanted)
            bench = _bench(engine, settings, policies, wanted)
            try:
                _follow(bench, tasks, n, output, samples)
            finally:
                about["tasks"]["chains"] = bench.n_chains
    finally:
        _report(samples, about, document, output, plots=plots)


def _bench(engine: Engine, settings: Settings, policies: str, wanted: BenchOptions) -> Bench:
    from relaylite.bench.measuring import Bench
    from relaylite.bench.methods import parse_methods
    from relaylite.cli.commands.run import chosen_agents

    agents = chosen_agents(settings) if settings.sources.get("agents", "").startswith("--") else None
    return Bench(engine, parse_methods(policies, engine.info.n_layer), agents, wanted)


def _follow(bench: Bench, tasks: list[Task], n: int, output: Output, samples: list[Sample]) -> None:
    def work(post: Callable[[Callable[[], None]], None]) -> None:
        def show(done: float, what: str) -> None:
            post(lambda: output.status(f"{bar(done)} {what}"))

        for found in bench.run(tasks, n, show):
            samples.extend(found)

    for news in Work(work, bench.cancel):
        news()
    output.status("")
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


def _report(samples: list[Sample], about: dict[str, Any], document: Document, output: Output, *, plots: Path | None) -> None:
    """The document or the tables, of all that was measured until then; and the pictures."""
    from relaylite.bench import report as reports

    report = document.value = reports.document(samples, about)
    if samples and not document.is_wanted:
        for group in report["groups"] if len(report["groups"]) > 1 else []:
            output.line(_headline(group["group"], group))
            _show(reports.table(group["rows"]), output)
        output.line(_headline("all", report))
        _show(reports.table(report["rows"]), output)
    if plots is not None and samples:
        _draw(report, plots, output)


def _headline(name: str, group: dict[str, Any]) -> str:
    tokens = f"{group['prefix_tokens']:.0f} prefix, {group['relayed_tokens']:.0f} relayed and {group['new_tokens']:.0f} new tokens"
    return f"{name}: {group['n_prompts']} prompts of {tokens} (medians)"


def _show(lines: list[str], output: Output) -> None:
    for line in [*lines, ""]:
        output.line(line)


def _draw(report: dict[str, Any], folder: Path, output: Output) -> None:
    from relaylite.bench.figures import svg
    from relaylite.bench.plots import figures_of

    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures_of(report):
        (folder / f"{name}.svg").write_text(svg(figure), encoding="utf-8")
        output.note(f"wrote {folder / name}.svg")
