"""The source as `ast` sees it: which files there are, to which part each belongs, and what it imports."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
VALUES = {"errors", "events", "metrics", "paths", "sampling", "terminal_text"}  # the plain modules at the top, one part together


def source_files() -> list[Path]:
    return [path for folder in ("relaylite", "tui") for path in sorted((ROOT / folder).rglob("*.py"))]


def part_of(path: Path) -> str:
    """`relaylite/store/radix.py` → store, `tui/app.py` → tui, `relaylite/errors.py` → values."""
    inside = path.relative_to(ROOT)
    name = inside.parts[0] if inside.parts[0] == "tui" else inside.parts[1].removesuffix(".py")
    return "values" if name in VALUES else name


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports_of(path: Path) -> set[str]:
    """Dotted names of all modules that the file imports, at the top or inside functions."""
    names: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: write imports in full"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def parts_imported(path: Path) -> set[str]:
    """Parts of relaylite that the file imports."""
    names = {name.split(".")[1] for name in imports_of(path) if name.startswith("relaylite.")}
    return {"values" if name in VALUES else name for name in names} - {part_of(path), "_native"}
