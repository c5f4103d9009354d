"""`relaylite profile`: measures on this machine how a model is repaired best, and keeps that for its runs."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from relaylite import paths
from relaylite.cli import options
from relaylite.cli.command import Command
from relaylite.cli.document import Document
from relaylite.cli.opening import open_engine
from relaylite.cli.progress import with_progress
from relaylite.cli.terminal import Output
from relaylite.errors import UsageError
from relaylite.settings.settings import Settings

if TYPE_CHECKING:
    from relaylite.bench.figures import Figure
    from relaylite.calibrate.calibration import Findings
    from relaylite.reuse.profile import Profile

N_CTX = 2048  # tokens that the chains of a calibration take at most
EXAMPLES = ("relaylite profile qwen3-4b", "relaylite profile model.gguf --chains 24 --svg curve.svg")
CHAINS = "Measure so many chains, however long they take. Without it, as many as four minutes allow."

file_type = click.Path(path_type=Path)


@click.command("profile", cls=Command, examples=EXAMPLES)
@click.argument("named", metavar="[MODEL]", required=False)
@click.option("--tasks", "tasks_file", type=file_type, metavar="FILE", help="Tasks for the chains; 40 come with relaylite.")
@click.option("--chains", type=click.IntRange(4), metavar="N", help=CHAINS)
@click.option("--svg", "svg_file", type=file_type, metavar="FILE", help="Write the curve as SVG.")
@click.option("--png", "png_file", type=file_type, metavar="FILE", help="Write the curve as PNG (needs the extra plot).")
@click.option("--out", type=file_type, metavar="FILE", help="Write the profile to FILE only, where runs do not look for it.")
@options.setting_options(*options.MODEL)
@options.json_option
@options.talk_options
def command(
    named: str | None, tasks_file: Path | None, chains: int | None, svg_file: Path | None, png_file: Path | None, out: Path | None,
    settings: Settings, document: Document, quiet: bool, verbose: bool,
) -> None:  # fmt: skip
    """Measure how MODEL is repaired best, and keep that as its profile, which later runs on this machine use.

    Runs chains and compares rows from writing with rows from a full prefill (the curve). Then tries which layers look for deviation
    and how many tokens are recomputed. What loses least for its cost becomes the fidelities fast, balanced and careful, unless the
    default for an unknown model does better on prompts kept back for that.
    """
    from relaylite.bench.tasks import read_tasks
    from relaylite.calibrate.calibration import Calibration, CalibrationOptions

    for file in (svg_file, png_file, out):
        if file is not None and not file.parent.is_dir():
            raise UsageError(f"cannot write {file}: there is no folder {file.parent}")
    output = Output(quiet=quiet)
    tasks = read_tasks(tasks_file or paths.calibration_tasks_file())
    wanted = CalibrationOptions() if chains is None else CalibrationOptions(n_chains=chains, seconds=float("inf"))
    settings = replace(settings.for_model(named), kv_type="f16")
    with open_engine(settings, output, n_ctx=N_CTX, verbose=verbose) as engine:
        calibration = Calibration(engine, tasks, wanted)
        findings = with_progress(calibration.run, calibration.cancel, output)
        profile = findings.profile(engine)
    document.value = json.loads(profile.to_json())
    output.note(f"the profile is in {_keep(profile, out)}")
    figure = findings.similarity.figure()
    if not document.is_wanted:
        _show(findings, figure, output)
    _draw(figure, svg_file, png_file)


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
    output.line(f"{'fidelity':<10}{'TTFT, × naive':>14}{'KL mean':>9}{'KL first':>10}{'selected':>10}  (losses as shares of naive's)")
    for fidelity, each in findings.best.items():
        figures = f"{each.cost:>14.2f}{each.kl_mean_share:>9.2f}{each.kl_first_share:>10.2f}{each.selected_share:>10.2f}"
        output.line(f"{fidelity:<10}{figures}  {json.dumps(asdict(each.parameters))}")
    if kept := [fidelity for fidelity, each in findings.best.items() if each.parameters == findings.default[fidelity].parameters]:
        output.line(f"as before any calibration, since nothing better was found: {', '.join(kept)}")
    output.line(f"{findings.n_prompts} prompts, {len(findings.trials)} sets of parameters, {findings.seconds:.0f} s")


def _keep(profile: Profile, out: Path | None) -> Path:
    from relaylite.reuse.profile import save_profile

    if out is None:
        return save_profile(profile)
    out.write_text(profile.to_json(), encoding="utf-8")
    return out
