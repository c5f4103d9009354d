"""Packages with entry points, as pip would leave them in a folder of `sys.path`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def put_package(folder: Path, module: str, code: str, entry_points: str | Mapping[str, Mapping[str, str]]) -> None:
    """A package of one module, version 1.0. `entry_points`: group → name → value, or the text of its entry_points.txt."""
    (folder / f"{module}.py").write_text(code, encoding="utf-8")
    information = folder / f"{module}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", encoding="utf-8")
    if not isinstance(entry_points, str):
        groups = (
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items()) for group, points in entry_points.items()
        )
        entry_points = "\n".join(groups)
    (information / "entry_points.txt").write_text(entry_points, encoding="utf-8")
