"""How measured documents are kept: four digits, a line for each row."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_a_document_is_kept_with_four_digits_and_a_line_for_each_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import keeping

    monkeypatch.setattr(keeping, "FOLDER", tmp_path / "measured")
    rows = [{"ms": 14061.4, "n": 123456, "of": {"low": 0.00123456, "right": None}}, {"ms": 2.0, "n": 1, "of": {}}]
    keeping.keep("some", {"cpu": "É", "rows": rows, "groups": [{"group": "a", "rows": rows[1:]}]})
    sys.modules.pop("keeping")
    lines = (tmp_path / "measured" / "some.json").read_text(encoding="utf-8").splitlines()
    short = [{"ms": 14060, "n": 123456, "of": {"low": 0.001235, "right": None}}, {"ms": 2, "n": 1, "of": {}}]
    assert json.loads("\n".join(lines)) == {"cpu": "É", "rows": short, "groups": [{"group": "a", "rows": short[1:]}]}
    assert [json.loads(line.rstrip(",")) for line in lines if line.startswith('{"ms"')] == [*short, short[1]]
