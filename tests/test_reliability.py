"""docs/reliability.md names tests that exist, for every situation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if re.match(r"\| \d+ \| ", line) and "tests/" in line]
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


def test_every_situation_has_a_row_with_a_test() -> None:
    assert {int(row[0]) for row in ROWS} == set(range(1, 23))
    assert [row for row in ROWS if len(row) != 4 or "::test_" not in row[3]] == []


def test_every_test_that_the_table_names_is_collected() -> None:
    assert len(NAMED) > 80
    files = sorted({file for file, _ in NAMED})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    collected = {line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line}
    assert [f"{file}::{name}" for file, name in NAMED if f"{file}::{name}" not in collected] == []
