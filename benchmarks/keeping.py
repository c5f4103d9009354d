"""`keep`: a measured document in `measured/NAME.json`, in the form in which the repository keeps it. `python docs/write` reads it there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "measured"
DIGITS = 4  # significant ones


def keep(name: str, document: dict[str, Any]) -> None:
    """Write the document with rounded numbers: a line for each of its fields and for each row of measurement."""
    FOLDER.mkdir(exist_ok=True)
    fields = (f"{json.dumps(field)}: {_json(_rounded(value))}" for field, value in document.items())
    (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(fields) + "\n}\n", encoding="utf-8")
    print(f"kept in benchmarks/measured/{name}.json; `python docs/write` puts it into the documents", file=sys.stderr)


def _rounded(value: Any) -> Any:
    """Floats have `DIGITS` digits afterwards. Counts stay as they are."""
    if isinstance(value, dict):
        return {field: _rounded(inner) for field, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    if isinstance(value, float):
        short = float(f"{value:.{DIGITS}g}")
        return int(short) if short.is_integer() else short
    return value


def _json(value: Any) -> str:
    """The value on one line, but for rows, which have a line each."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(field)}: {_json(inner)}" for field, inner in value.items()) + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(map(_json, value)) + "\n]"
    return json.dumps(value, ensure_ascii=False)
