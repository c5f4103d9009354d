"""The README's speed table, from the run `gsm8k-chains`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pages import ROOT, measured, page_with, table

HEAD = ("policy", "first token sooner", "(quartiles)", "mean loss left", "first-token loss left", "cells taken over")
SHOWN = {"naive": "`naive`", "relay:fast": "`relay:fast`", "relay": "`relay` (balanced)", "relay:careful": "`relay:careful`"}


def files() -> dict[Path, str]:
    rows = {row["policy"]: row for row in measured("gsm8k-chains")["rows"]}
    page = ROOT / "README.md"
    return {page: page_with(page, {"speed": table(HEAD, [line(SHOWN[policy], rows[policy]) for policy in SHOWN])})}


def line(name: str, row: dict[str, Any]) -> list[str]:
    sooner, mean, first = row["ttft_ratio"], row["kl_mean_share"]["value"], row["kl_first_share"]["value"]
    quartiles = f"{sooner['q1']:.1f}–{sooner['q3']:.1f}"
    return [name, f"{sooner['median']:.1f}×", quartiles, f"{mean:.2f}", f"{first:.2f}", f"{row['reuse_ratio']:.0%}".replace("%", " %")]
