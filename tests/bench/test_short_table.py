"""The short table of benchmarks/gpu.sh: made of a real document, and plain where a run ended early or before it began."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = json.loads((ROOT / "benchmarks" / "measured" / "gsm8k-1000.json").read_text(encoding="utf-8"))


def shown(text: str, folder: Path) -> list[str]:
    file = folder / "figures.json"
    file.write_text(text, encoding="utf-8")
    script = ROOT / "benchmarks" / "short_table.py"
    return subprocess.run([sys.executable, script, file], capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_row_for_each_length_and_a_column_for_each_policy(tmp_path: Path) -> None:
    about, _, head, rule, row = shown(json.dumps(DOCUMENT), tmp_path)
    figures = {row["policy"]: row for row in DOCUMENT["groups"][0]["rows"]}
    assert DOCUMENT["model"]["name"] in about and rule.count("|") == head.count("|") == row.count("|")
    cells = dict(zip(re.split(r" ?\| ?", head), re.split(r" ?\| ?", row), strict=True))
    assert cells["relayed"] == "1000" and cells["full ms"] == f"{figures['full']['ttft_ms']:.1f}"
    naive = figures["naive"]
    assert cells["naive ms (×)"] == f"{naive['ttft_ms']:.1f} ({naive['ttft_ratio']['median']:.1f})"
    assert cells["relay loss"] == f"{figures['relay']['kl_mean_share']['value']:.2f}"
    assert not any("again" in name for name in cells)


@pytest.mark.parametrize(
    ("change", "last"),
    [
        ({"error": "stopped; what was measured until then is kept"}, "ended early: stopped; what was measured until then is kept"),
        ({"groups": [], "rows": [], "error": "cannot reach the worker"}, "nothing was measured: cannot reach the worker"),
    ],
)
def test_what_ended_early_says_so(change: dict[str, Any], last: str, tmp_path: Path) -> None:
    assert shown(json.dumps(DOCUMENT | change), tmp_path)[-1] == last


def test_no_document_is_one_line(tmp_path: Path) -> None:
    assert shown("", tmp_path) == ["nothing was measured: the benchmark wrote no document"]
