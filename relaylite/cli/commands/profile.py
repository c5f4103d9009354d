"""`relaylite profile`: measures on this machine how a model is repaired best, and keeps that for its runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from relaylite import paths
from relaylite.cli import options
from relaylite.cli.command import Command
from relaylite.cli.document import Document
from relaylite.cli.interrupts import Work
from relaylite.cli.opening import open_engine
from relaylite.cli.terminal import Output, bar
from relaylite.settings.settings import Settings

if TYPE_CHECKING:
    from relaylite.bench.figures import Figure
    from relaylite.calibrate.calibration import Calibration, Findings
    from relaylite.reuse.profile import Profile

N_CTX = 2048


@click.command("profile", cls=Command, examples=("relaylite profile qwen3-4b", "relaylite profile model.gguf --chains 24 --svg curve.svg"))
@click.argument("named", metavar="[MODEL]", required=False)
@click.option(
    "--tasks", "tasks_file", type=click.Path(path_type=Path), metavar="FILE", help="Tasks for the chains; 40 come with relaylite."
)
@click.option(
    "--chains", type=click.IntRange(4), default=None, help="How many chains, however long they take; else what four minutes allow."
)
@click.option("--svg", "svg_file", type=click.Path(path_type=Path), metavar="FILE", help="Write the curve as SVG.")
@click.option("--png", "png_file", type=click.Path(path_type=Path), metavar="FILE", help="Write the curve as PNG (needs the extra plot).")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the profile there, and nowhere else.")
@options.setting_options(*options.MODEL)
@options.json_option
@options.talk_options
def command(
    named: str | None, tasks_file: Path | None, chains: int | None, svg_file: Path | None, png_file: Path | None, out: Path | None,
    settings: Settings, document: Document, quiet: bool, verbose: bool,
) -> None:  # fmt: skip
    """Calibrate MODEL: run chains, see how rows from writing match rows from a full prefill, and try layer ranges and amounts.

    What loses least for its cost becomes the modes fast, balanced and careful of this model on this machine.
    """
    from relaylite.bench.tasks import read_tasks
    from relaylite.calibrate.calibration import Calibration, CalibrationOptions

    output = Output(quiet=quiet)
    tasks = read_tasks(tasks_file or paths.calibration_tasks_file())
    wanted = CalibrationOptions() if chains is None else CalibrationOptions(n_chains=chains, seconds=float("inf"))
    settings = replace(settings.for_model(named), kv_type="f16")
    with open_engine(settings, output, n_ctx=N_CTX, verbose=verbose) as engine:
        findings = _follow(Calibration(engine, tasks, wanted), output)
        profile = findings.profile(engine)
    figure = findings.similarity.figure()
    _draw(figure, svg_file, png_file)
    document.value = json.loads(profile.to_json())
    if not document.is_wanted:
        _show(findings, figure, output)
    output.note(f"the profile is in {_keep(profile, out)}")


def _follow(calibration: Calibration, output: Output) -> Findings:
    found: list[Findings] = []

    def work(post: Callable[[Callable[[], None]], None]) -> None:
        def show(done: float, what: str) -> None:
            post(lambda: output.status(f"{bar(done)} {done:4.0%} {what}"))

        found.append(calibration.run(show))

    for news in Work(work, calibration.cancel):
        news()
    output.status("")
    return found[0]


def _draw(figure: Figure, svg_file: Path | None, png_file: Path | None) -> None:
    from relaylite.bench.figures import png, svg

    if svg_file is not None:
        svg_file.write_text(svg(figure), encoding="utf-8")
    if png_file is not None:
        png_file.write_bytes(png(figure))


def _show(findings: Findings, figure: Figure, output: Output) -> None:
    from relaylite.bench.figures import text

    for line in text(figure):
        output.line(line)
    output.line("U-shaped over the depth" if findings.similarity.has_dip() else "not U-shaped over the depth")
    output.line()
    output.line(f"{'mode':<10}{'TTFT, × naive':>14}{'KL mean':>9}{'KL first':>10}{'selected':>10}  (losses as shares of naive's)")
    for mode, each in findings.modes.items():
        figures = f"{each.cost:>14.2f}{each.kl_mean_share:>9.2f}{each.kl_first_share:>10.2f}{each.selected_share:>10.2f}"
        output.line(f"{mode:<10}{figures}  {json.dumps(asdict(each.parameters))}")
    output.line(f"{findings.n_prompts} prompts, {len(findings.candidates)} candidates, {findings.seconds:.0f} s")


def _keep(profile: Profile, out: Path | None) -> Path:
    from relaylite.reuse.profile import save_profile

    if out is None:
        return save_profile(profile)
    out.write_text(profile.to_json(), encoding="utf-8")
    return out
