"""The module tables of docs/architecture.md: packages and modules as their docstrings name them, and what each package imports."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from pages import DOCS, ROOT, page_with, table
from support.source import part_of, parts_imported, source_files, tree_of

DOORS = (  # the forms in which a docstring's first sentence names a door
    re.compile(r"(?P<door>`\w+`(?: in `\w+\.py`)?): (?P<holds>.*)"),
    re.compile(r"(?P<holds>.*); the door is (?P<door>`\w+`(?: in `\w+\.py`)?)"),
)
STARTERS = ("__init__", "__main__")
NATIVE = ("`native/`", "`relay.h`", "C++: reads, places and rotates rows, and computes slices of llama.cpp's graph", "llama.cpp")


def files() -> dict[Path, str]:
    lines: list[str] = []
    for folder in sorted({path.parent for path in source_files()}, key=lambda folder: (depth_of(part_of(folder / "__init__.py")), folder)):
        lines += ["", f"### `{folder.relative_to(ROOT)}/`", "", *modules(folder)]
    page = DOCS / "architecture.md"
    return {page: page_with(page, {"packages": ["", *packages(), ""], "modules": [*lines, ""]})}


def packages() -> list[str]:
    """From people down: a part stands above all that it imports."""
    parts = sorted({part_of(path) for path in source_files()} - {*STARTERS}, key=lambda part: (-depth_of(part), part))
    return table(("package", "door", "what it is for", "imports"), [*map(package, parts), NATIVE])


def package(part: str) -> list[str]:
    imports = sorted(below(part), key=lambda other: (depth_of(other), other))
    shown = ", ".join(imports) or "–"
    if part == "values":
        names = ", ".join(f"`{path.name}`" for path in source_files() if part_of(path) == part)
        return [part, "–", f"the plain modules at the top: {names}", shown]
    path = next(path for path in (ROOT / part, ROOT / "relaylite" / part, ROOT / "relaylite" / f"{part}.py") if path.exists())
    says = first_sentence(path if path.suffix else path / "__init__.py")
    named = next((found for form in DOORS if (found := form.fullmatch(says))), None)
    name = f"`{path.relative_to(ROOT)}{'' if path.suffix else '/'}`"
    return [name, named["door"] if named else "–", escaped(named["holds"] if named else says), shown]


def modules(folder: Path) -> list[str]:
    paths = [path for path in sorted(folder.glob("*.py")) if path.stem != "__init__"]
    return table(("module", "holds"), ((f"`{path.name}`", escaped(first_sentence(path))) for path in paths))


@cache
def below(part: str) -> frozenset[str]:
    """The parts that this one imports."""
    return frozenset().union(*(parts_imported(path) for path in source_files() if part_of(path) == part))


@cache
def depth_of(part: str) -> int:
    """0 for a part that imports no other, and one more than the deepest of those that it imports."""
    return 0 if part in STARTERS else max((depth_of(other) + 1 for other in below(part)), default=0)


def first_sentence(path: Path) -> str:
    says = ast.get_docstring(tree_of(path)) or ""
    paragraph = " ".join(says.partition("\n\n")[0].split())
    return re.split(r"(?<=\.)\s+(?=[A-Z`])", paragraph)[0].removesuffix(".")


def escaped(text: str) -> str:
    return text.replace("|", r"\|")
