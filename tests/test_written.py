"""The documents that `python docs/write` makes are current, and `--check` finds one that is not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from relaylite.cli import COMMANDS

ROOT = Path(__file__).parent.parent
SOURCES = ("relaylite", "tui", "docs", "tests/support", "benchmarks/measured")  # what the documents are made from
TABLES = {  # page → a line of each table in it
    "README.md": ("| `relay` (balanced) |",),
    "docs/architecture.md": ("| `relaylite/store/` |", "| `planner.py` |"),
    "docs/results.md": ("| relay:careful |",),
    "docs/reliability.md": ("| heap, MB |", "| fetching a model |"),
}

OTHERS = ("docs/img/memory.svg", "docs/man/relaylite-run.1")  # files that are written whole


def write(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, root / "docs" / "write", *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for folder in SOURCES:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(ROOT / "README.md", tmp_path)
    return tmp_path


def test_the_documents_are_current() -> None:
    done = write(ROOT, "--check")
    assert (done.returncode, done.stdout) == (0, ""), f"{done.stdout}{done.stderr}: run python docs/write"


def test_what_was_changed_by_hand_is_found_and_written_anew(copy: Path) -> None:
    for page, starts in TABLES.items():
        text = (copy / page).read_text(encoding="utf-8")
        assert all(start in text for start in starts)
        for start in starts:
            text = text.replace(start, f"{start} else |")
        (copy / page).write_text(text, encoding="utf-8")
    page = copy / "docs/man/relaylite-run.1"
    page.write_text(page.read_text(encoding="utf-8").replace("seed", "sed"), encoding="utf-8")
    (copy / "docs/img/memory.svg").unlink()
    checked = write(copy, "--check")
    assert checked.returncode == 1
    assert {line.split()[0] for line in checked.stdout.splitlines()} == {*TABLES, *OTHERS}
    assert write(copy).returncode == 0
    assert write(copy, "--check").returncode == 0
    for file in (*TABLES, *OTHERS):
        assert (copy / file).read_bytes() == (ROOT / file).read_bytes()


def test_a_page_without_its_markers_is_named(copy: Path) -> None:
    page = copy / "README.md"
    page.write_text(page.read_text(encoding="utf-8").replace("<!-- speed -->", ""), encoding="utf-8")
    done = write(copy, "speed")
    assert done.returncode == 1 and "README.md must hold <!-- speed -->" in done.stderr


def test_every_command_has_a_man_page_and_nothing_else_has() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "man").iterdir()}
    assert {name.split("-")[1] for name in pages - {"relaylite"}} == {*COMMANDS}
    assert {f"relaylite-{name}" for name in COMMANDS} | {"relaylite"} <= pages
