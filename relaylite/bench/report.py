"""What a benchmark says: a row for each policy, the document of `--json`, and the same as a table to read.

docs/results.md explains the names. They do not change within a version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

import numpy as np

from relaylite.bench.sample import Sample
from relaylite.bench.statistics import ratio_of_means, spread, wilson
from relaylite.metrics import STAGES
from relaylite.reuse.policies import FULL, NAIVE

VERSION = 1

COLUMNS: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
    ("policy", lambda row: row["policy"]),
    ("TTFT ×", lambda row: f"{row['ttft_ratio']['median']:.2f}"),
    ("quartiles", lambda row: f"{row['ttft_ratio']['q1']:.2f}–{row['ttft_ratio']['q3']:.2f}"),
    ("95 % CI", lambda row: f"{row['ttft_ratio']['ci_low']:.2f}–{row['ttft_ratio']['ci_high']:.2f}"),
    ("floor", lambda row: f"{row['floor_ratio']['median']:.2f}"),
    ("ms", lambda row: f"{row['ttft_ms']:.0f}"),
    ("reuse ratio", lambda row: f"{row['reuse_ratio']:.3f}"),
    ("prompt reuse", lambda row: f"{row['prompt_reuse']:.3f}"),
    ("selected", lambda row: f"{row['selected_share']:.3f}"),
    ("KL first", lambda row: f"{row['kl_first']:.4f}"),
    ("share", lambda row: _share(row["kl_first_share"])),
    ("KL mean", lambda row: f"{row['kl_mean']:.5f}"),
    ("share", lambda row: _share(row["kl_mean_share"])),
    ("top-1", lambda row: f"{row['top1']:.3f}"),
    ("right", lambda row: _accuracy(row["accuracy"])),
)


def rows_of(samples: Iterable[Sample]) -> list[dict[str, Any]]:
    """One row for each method, in the order of their first samples; empty without samples.

    Ratios are paired by prompt. `kl_*_share`: the loss as a share of what `naive` loses on the same prompts.
    """
    by_method: dict[str, dict[int, Sample]] = {}
    for sample in samples:
        by_method.setdefault(sample.method, {})[sample.prompt] = sample
    if not by_method:
        return []
    full, naive = by_method[FULL.label], by_method[NAIVE.label]
    return [_row(list(own.values()), [full[n] for n in own], [naive[n] for n in own]) for own in by_method.values()]


def _row(own: Sequence[Sample], full: Sequence[Sample], naive: Sequence[Sample]) -> dict[str, Any]:
    ttft = _values(own, lambda s: s.ttft.total)
    first, mean = _values(own, lambda s: s.kl_first), _values(own, lambda s: s.kl_mean)
    first_share = ratio_of_means(first, _values(naive, lambda s: s.kl_first))
    mean_share = ratio_of_means(mean, _values(naive, lambda s: s.kl_mean))
    return {
        "policy": own[0].method,
        "n": len(own),
        "ttft_ratio": asdict(spread(_values(full, lambda s: s.ttft.total) / ttft)),
        "floor_ratio": asdict(spread(ttft / _values(naive, lambda s: s.ttft.total))),
        "ttft_ms": float(np.median(ttft)),
        "ttft_parts_ms": {stage: float(np.median([getattr(s.ttft, stage) for s in own])) for stage in STAGES},
        "reuse_ratio": float(np.mean([s.reuse_ratio for s in own])),
        "prompt_reuse": float(np.mean([s.prompt_reuse for s in own])),
        "selected_share": float(np.mean([s.selected_tokens / s.span_tokens if s.span_tokens else 0.0 for s in own])),
        "kl_first": float(first.mean()),
        "kl_mean": float(mean.mean()),
        "kl_first_share": first_share and asdict(first_share),
        "kl_mean_share": mean_share and asdict(mean_share),
        "top1": float(np.mean([s.top1 for s in own])),
        "accuracy": _accuracy_of(own),
    }


def _accuracy_of(samples: Sequence[Sample]) -> dict[str, Any] | None:
    judged = [s.is_right for s in samples if s.is_right is not None]
    return {"n": len(judged), **asdict(wilson(sum(judged), len(judged)))} if judged else None


def document(samples: Sequence[Sample], about: dict[str, Any], error: str | None = None) -> dict[str, Any]:
    """The whole of `--json`: `about` first, then rows over all prompts, then rows for each group of prompts alike."""
    in_order = sorted(samples, key=lambda s: (len(s.group.split()[0]), s.group))
    groups = [{"group": group, **_prompts(own := list(each)), "rows": rows_of(own)} for group, each in groupby(in_order, lambda s: s.group)]
    return {"version": VERSION, **about, **_prompts(samples), "rows": rows_of(samples), "groups": groups, "error": error}


def _prompts(samples: Sequence[Sample]) -> dict[str, Any]:
    """How many prompts there were, and how many tokens in the median they had, by what a relaying policy makes of them."""
    relayed = [s for s in samples if s.method == NAIVE.label]

    def median(value: Callable[[Sample], int]) -> float:
        return float(np.median([value(s) for s in relayed])) if relayed else 0.0

    return {
        "n_prompts": len(relayed),
        "prompt_tokens": median(lambda s: s.prompt_tokens),
        "prefix_tokens": median(lambda s: s.prefix_tokens),
        "relayed_tokens": median(lambda s: s.span_tokens),
        "new_tokens": median(lambda s: s.prompt_tokens - s.prefix_tokens - s.span_tokens),
    }


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Lines of a table for the terminal; columns that say nothing here are left out."""
    cells = [[name for name, _ in COLUMNS], *([show(row) for _, show in COLUMNS] for row in rows)]
    kept = [column for column in zip(*cells, strict=True) if any(cell not in ("", "–") for cell in column[1:])]
    widths = [max(map(len, column)) for column in kept]
    lines = zip(*kept, strict=True)
    return ["  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))) for line in lines]


def markdown(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The same as a Markdown table."""
    head = [name for name, _ in COLUMNS]
    body = [[show(row) for _, show in COLUMNS] for row in rows]
    return [_line(head), _line(["---"] * len(head)), *map(_line, body)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _values(samples: Sequence[Sample], value: Callable[[Sample], float]) -> Any:
    return np.array([value(sample) for sample in samples], np.float64)


def _share(estimate: dict[str, float] | None) -> str:
    return "–" if estimate is None else f"{estimate['value']:.2f}"


def _accuracy(estimate: dict[str, float] | None) -> str:
    return "–" if estimate is None else f"{estimate['value']:.0%} ({estimate['ci_low']:.0%}–{estimate['ci_high']:.0%})"
