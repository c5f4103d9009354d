"""The store's layers, as `relaylite/store/__init__.py` draws them: each uses what lies below it, and none reaches through another."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import relaylite.store

FOLDER = Path(relaylite.store.__file__).parent
FROM_THE_GROUND = [
    "prefill_speed", "ledger", "worth", "captured", "codec", "rowfile", "radix", "texts",
    "holdings", "gather", "folder", "tiers", "store", "scope",
]  # fmt: skip
NEXT_TO_STORE = {"codec", "folder", "gather", "holdings", "ledger", "prefill_speed", "radix", "tiers", "worth"}


def tree_of(name: str) -> ast.Module:
    return ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))


def imported_by(name: str) -> set[str]:
    modules = [node.module or "" for node in ast.walk(tree_of(name)) if isinstance(node, ast.ImportFrom)]
    return {module.removeprefix("relaylite.store.") for module in modules if module.startswith("relaylite.store.")}


def test_every_module_has_its_place() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} - {"__init__"} == set(FROM_THE_GROUND)


@pytest.mark.parametrize("name", FROM_THE_GROUND)
def test_a_module_imports_only_what_lies_below_it(name: str) -> None:
    assert imported_by(name) <= set(FROM_THE_GROUND[: FROM_THE_GROUND.index(name)])


def test_the_store_sees_neither_files_nor_the_index() -> None:
    assert imported_by("store") <= NEXT_TO_STORE


@pytest.mark.parametrize("name", ["store", "tiers", "holdings"])
def test_no_layer_reaches_through_another(name: str) -> None:
    """`self._layer.verb(…)`, never `self._layer.part.verb(…)`."""
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and isinstance(node.value.value, ast.Attribute):
            layer = node.value.value
            is_own = isinstance(layer.value, ast.Name) and layer.value.id == "self"
            assert not (is_own and layer.attr.startswith("_")), f"line {node.lineno}: self.{layer.attr}.{node.value.attr}.{node.attr}"
