"""`relaylite doctor`: what is installed and how well it works here, and what to do about each finding."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from relaylite.cli import options
from relaylite.cli.findings import NOTE, PROBLEM, Finding, installation, llama_cpp, machine, places
from relaylite.cli.speed import speed
from relaylite.cli.terminal import Output

_MARKS = {PROBLEM: ("✗", "red"), NOTE: ("!", "yellow")}


@click.command("doctor")
@click.option("--quick", is_flag=True, help="Leave out the speed and relay check, which takes some seconds.")
@click.option("-m", "--model", metavar="MODEL", help="The model of the speed check.")
@options.json_option
def command(model: str | None, quick: bool, as_json: bool) -> int:
    """Check this installation: versions, llama.cpp's features and devices, memory, folders, speed. Exit code 1 if something is broken."""
    output = Output(quiet=as_json)
    found: list[Finding] = []
    for check in (installation, llama_cpp, machine, places):
        found += _shown(check(), output, as_json)
    if not quick:
        found += _shown(speed(model, output), output, as_json)
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in found], ensure_ascii=False, indent=2))
    return int(any(finding.status == PROBLEM for finding in found))


def _shown(findings: list[Finding], output: Output, as_json: bool) -> list[Finding]:
    for finding in [] if as_json else findings:
        mark, color = _MARKS.get(finding.status, ("✓", ""))
        output.line(f"{mark} {finding.name}: {finding.value}", color=color)
        if finding.advice:
            output.line(f"    → {finding.advice}")
    return findings
