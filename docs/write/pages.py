"""What all documents here share: where the repository's folders are, and blocks of a page between two markers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
IMAGES = DOCS / "img"
MEASURED = ROOT / "benchmarks" / "measured"


def page_with(page: Path, blocks: Mapping[str, Iterable[str]]) -> str:
    """The page's text with these lines between `<!-- NAME -->` and `<!-- /NAME -->`, for each name. Ends the script if one is missing."""
    text = page.read_text(encoding="utf-8")
    for name, lines in blocks.items():
        block = "\n".join([f"<!-- {name} -->", *lines, f"<!-- /{name} -->"])
        text, n_found = re.subn(f"<!-- {name} -->.*?<!-- /{name} -->", lambda _, block=block: block, text, flags=re.DOTALL)  # type: ignore[misc]
        if n_found != 1:
            raise SystemExit(f"{page.relative_to(ROOT)} must hold <!-- {name} --> … <!-- /{name} --> once; it holds it {n_found} times")
    return text


def measured(name: str) -> dict[str, Any]:
    """The document that a benchmark kept under this name."""
    document: dict[str, Any] = json.loads((MEASURED / f"{name}.json").read_text(encoding="utf-8"))
    return document


def table(head: Iterable[object], rows: Iterable[Iterable[object]]) -> list[str]:
    """Lines of a Markdown table."""
    cells = [list(map(str, head))]
    cells += [["---"] * len(cells[0]), *(list(map(str, row)) for row in rows)]
    return [f"| {' | '.join(row)} |" for row in cells]
