"""docs/results.md says what the documents beside it say."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_tables_and_pictures_are_those_of_the_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("results_page", ROOT / "benchmarks" / "results.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    docs = tmp_path / "docs"
    shutil.copytree(ROOT / "docs" / "results", docs / "results")
    shutil.copy(ROOT / "docs" / "results.md", docs)
    monkeypatch.setattr(script, "DOCS", docs)
    monkeypatch.setattr(script, "FOLDER", docs / "results")
    script.write()
    again = {file.relative_to(docs): file.read_bytes() for file in docs.rglob("*") if file.is_file()}
    assert any(path.stem in script.RUNS for path in again)
    for path, content in again.items():
        assert (ROOT / "docs" / path).read_bytes() == content, f"{path}: run python benchmarks/results.py --only-write"
