"""Tables of docs/results.md and their pictures, from the documents of `relaylite bench` that are kept in benchmarks/measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pages import DOCS, IMAGES, MEASURED, measured, page_with

from relaylite.bench.figures import COLORS, Figure, svg
from relaylite.bench.plots import figures_of
from relaylite.bench.report import markdown


def files() -> dict[Path, str]:
    reports = {path.stem: measured(path.stem) for path in sorted(MEASURED.glob("*.json"))}
    reports = {name: report for name, report in reports.items() if "groups" in report}  # those of `relaylite bench`
    drawn = {name: figures(name, report) for name, report in reports.items()}
    page = DOCS / "results.md"
    text = page_with(page, {name: section(report, drawn[name]) for name, report in reports.items()})
    return {page: text} | {IMAGES / file: svg(figure) for each in drawn.values() for file, figure in each.items()}


def figures(name: str, report: dict[str, Any]) -> dict[str, Figure]:
    """By file name. A figure with more series than colours is left out: the table says more than dots that look alike."""
    return {f"{name}-{kind}.svg": figure for kind, figure in figures_of(report) if len(figure.series) <= len(COLORS)}


def section(report: dict[str, Any], drawn: dict[str, Figure]) -> list[str]:
    machine, versions = report["machine"], report["versions"]
    lines = [
        "",
        f"`{report['command']}` on {machine['cpu']}, {machine['cores']} cores, llama-cpp-python {versions['llama-cpp-python']},"
        f" {report['model']['file']}: {prompts(report)}.",
        "",
        *markdown(report["rows"]),
        "",
    ]
    if len(report["groups"]) > 1:
        for group in report["groups"]:
            lines += [f"**{group['group']}**: {prompts(group)}.", "", *markdown(group["rows"]), ""]
    for file, figure in drawn.items():
        lines += [f"![{figure.title}](img/{file})", ""]
    return lines


def prompts(part: dict[str, Any]) -> str:
    tokens = f"{part['prefix_tokens']:.0f} prefix, {part['relayed_tokens']:.0f} relayed, {part['new_tokens']:.0f} new tokens"
    return f"{part['n_prompts']} prompts of {tokens} (medians)"
