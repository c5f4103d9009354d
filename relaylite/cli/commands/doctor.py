"""`relaylite doctor`: what is installed and how well it works here, and what to do about each finding."""

from __future__ import annotations

from dataclasses import asdict

import click

from relaylite.cli import options
from relaylite.cli.command import Command
from relaylite.cli.doctor.checks import NOTE, PROBLEM, Finding, installation, llama_cpp, machine, places
from relaylite.cli.doctor.speed import speed
from relaylite.cli.document import Document
from relaylite.cli.terminal import Output

_MARKS = {PROBLEM: ("✗", "red"), NOTE: ("!", "yellow")}


@click.command("doctor", cls=Command, examples=("relaylite doctor", "relaylite doctor --quick --json", "relaylite doctor --model qwen3-4b"))
@click.option("--quick", is_flag=True, help="Leave out the speed and relay check, which takes some seconds.")
@click.option("-m", "--model", metavar="MODEL", help="The model of the speed check.")
@options.json_option
def command(model: str | None, quick: bool, document: Document) -> int:
    """Check this installation: versions, llama.cpp's features and devices, memory, folders and speed.

    Exit code 1 if something is broken.
    """
    output = Output(quiet=document.is_wanted)
    found: list[Finding] = []
    for check in (installation, llama_cpp, machine, places):
        found += _shown(check(), output, document)
    if not quick:
        found += _shown(speed(model, output), output, document)
    document.value = [asdict(finding) for finding in found]
    return int(any(finding.status == PROBLEM for finding in found))


def _shown(findings: list[Finding], output: Output, document: Document) -> list[Finding]:
    for finding in [] if document.is_wanted else findings:
        mark, color = _MARKS.get(finding.status, ("✓", ""))
        output.line(f"{mark} {finding.name}: {finding.value}", color=color)
        if finding.advice:
            output.line(f"    → {finding.advice}")
    return findings
