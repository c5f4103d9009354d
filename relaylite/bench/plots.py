"""Which figures are drawn of a benchmark's document: speed against fidelity, and TTFT along a chain or against relayed length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from relaylite.bench.figures import Figure, Series
from relaylite.bench.methods import AGAIN
from relaylite.reuse.policies import FULL, LABELS


def figures_of(document: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    """Name and figure of all that this document has the figures for."""
    rows = [row for row in document["rows"] if row["policy"] not in (FULL.label, AGAIN.label)]
    if rows:
        yield "speed-fidelity", speed_against_fidelity(rows)
    if len(document["groups"]) > 1:
        by_length = all(group["group"].isdecimal() for group in document["groups"])
        name, label = ("ttft-length", "relayed tokens") if by_length else ("ttft-chain", "agent of the chain")
        yield name, ttft_by_group(document["groups"], label, by_length=by_length)


def speed_against_fidelity(rows: list[dict[str, Any]]) -> Figure:
    """Each policy as a point: how much faster than a full prefill, and what share of the loss it leaves."""
    series = [Series(row["policy"], ((row["ttft_ratio"]["median"], row["kl_mean"]),), is_line=False) for row in rows]
    return Figure("Speed against fidelity", "TTFT: times faster than a full prefill", "mean KL to a full prefill", tuple(series))


def ttft_by_group(groups: list[dict[str, Any]], label: str, *, by_length: bool) -> Figure:
    """Median TTFT of each policy over lengths of relayed text, or over the agents of a chain."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for number, group in enumerate(groups, 2):
        x = group["relayed_tokens"] if by_length else number
        for row in group["rows"]:
            if row["policy"] in LABELS:
                lines.setdefault(row["policy"], []).append((x, row["ttft_ms"]))
    series = tuple(Series(name, tuple(points)) for name, points in lines.items())
    title = "Time to first token against relayed length" if by_length else "Time to first token along a chain"
    return Figure(title, label, "TTFT in ms (median)", series, is_x_log=by_length, is_y_log=True)
