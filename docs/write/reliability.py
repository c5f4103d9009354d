"""Tables of docs/reliability.md and the picture of memory, from what benchmarks/memory.py and benchmarks/cancel.py kept."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from pages import DOCS, IMAGES, measured, page_with, table

from relaylite.bench.figures import Figure, Series, svg

KINDS = ("resident", "heap")
SHOWN = (1, 5, 10, 20, 40, 60, 100, 150, 200, 250, 300)  # chains


def files() -> dict[Path, str]:
    page, memory = DOCS / "reliability.md", measured("memory")
    text = page_with(page, {"memory": memory_lines(memory), "cancel": cancel_lines(measured("cancel"))})
    return {page: text, IMAGES / "memory.svg": svg(memory_figure(memory))}


def memory_figure(document: dict[str, Any]) -> Figure:
    series = tuple(Series(kind, tuple(enumerate(document["chains"][kind], 1))) for kind in KINDS)
    return Figure("Memory over chains in one process", "chains", "MB", series)


def memory_lines(document: dict[str, Any]) -> list[str]:
    chains, opens, where = document["chains"], document["opens"], document["machine"]
    n = len(chains["resident"])
    shown = [number for number in SHOWN if number <= n]
    return [
        f"`{document['command']}` on {where['cpu']}, {where['cores']} cores: three agents a chain, {chains['max_tokens']} tokens each,",
        f"{chains['relayed_tokens']:,} tokens relayed in all, a store of {chains['store_bytes'] / 1e6:.0f} MB.",
        "",
        *table(["chains", *shown], [[f"{kind}, MB", *(f"{chains[kind][number - 1]:.0f}" for number in shown)] for kind in KINDS]),
        "",
        f"From chain {chains['warm_up']} to {n}: {grown(chains)}.",
        f"{len(opens['resident'])} opens of the model: over the second half {grown(opens)}.",
        "",
        "![Memory over chains](img/memory.svg)",
    ]


def grown(part: dict[str, Any]) -> str:
    growth, (before, after) = part["growth"], part["files"]
    return f"resident {growth['resident']:+.1f} MB, heap {growth['heap']:+.1f} MB; open files {before} before and {after} after"


def cancel_lines(document: dict[str, Any]) -> list[str]:
    where = document["machine"]
    head = ("while", "signal", "exit code", "median, s", "longest, s", "processor time, s", "of")
    return [
        f"`{document['command']}` on {where['cpu']}, {where['cores']} cores that {document['load']:.0f} processes wanted (load average):",
        "seconds from the signal, at a random moment of the phase, to the end of the process; and the processor time that it took until",
        "then (the rest is waiting for a processor).",
        "",
        *table(head, map(cancel_row, document["rows"])),
    ]


def cancel_row(row: dict[str, Any]) -> list[object]:
    seconds, worked = row["seconds"], statistics.median(row["cpu_seconds"])
    times = [f"{value:.2f}" for value in (statistics.median(seconds), max(seconds), worked)]
    return [row["phase"], row["signal"], row["exit_code"], *times, len(seconds)]
