"""Dependencies point down, and outside things have one door each. Read off the source, and off what an import really loads."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.source import ROOT, imports_of, part_of, parts_imported, source_files, tree_of

# The packages from the ground up, and what each may import of relaylite besides itself. `values` are the plain modules at the top.
MAY_IMPORT: dict[str, set[str]] = {
    "values": set(),
    "reuse": {"values"},
    "gguf": {"values"},
    "plugins": {"values"},
    "prompt": {"values", "reuse"},
    "settings": {"values", "reuse"},
    "store": {"values", "reuse"},
    "machine": {"values", "settings"},
    "engine": {"values", "reuse", "gguf", "prompt", "machine"},
    "runs": {"values", "reuse", "prompt", "store", "engine"},
    "chain": {"values", "plugins", "reuse", "prompt", "settings", "store", "machine", "engine", "runs"},
    "completion": {"values", "reuse", "prompt", "store", "engine", "runs"},
    "api": {"values", "reuse", "gguf", "store", "machine", "engine", "runs", "chain", "completion"},
    "serve": {"values", "reuse", "engine", "completion"},
    "bench": {"values", "reuse", "prompt", "store", "engine", "chain"},
    "calibrate": {"values", "reuse", "prompt", "engine", "bench"},
    "tui": {"values", "plugins", "reuse", "gguf", "settings", "engine", "chain", "api"},
    "cli": {
        "values",
        "plugins",
        "reuse",
        "gguf",
        "settings",
        "store",
        "machine",
        "engine",
        "chain",
        "api",
        "bench",
        "calibrate",
        "serve",
        "tui",
    },
}
# Modules of a package that others may import; those of a package that is not named here are all open.
OPEN: dict[str, set[str]] = {
    "chain": {"agents", "attachments", "chain", "conversation", "result", "sessions"},
    "engine": {"engine", "interface", "llama", "native", "options", "sweep"},
    "gguf": {"adapters", "catalog", "download", "fingerprint", "header"},
    "prompt": {"builder", "known_answers", "messages", "template", "tokenizer"},
    "settings": {"readers", "settings", "toml_file"},
    "store": {"Scope", "Store", "codec", "folder", "prefill_speed"},
}
MODULES_IN_A_FOLDER, MODULES_AT_THE_TOP = 15, 9
DOORS = {  # outside thing → the only parts, modules or folders of modules that may import it
    "llama_cpp": {"engine/llama", "engine/native", "machine/devices"},  # native only so that it is loaded first
    "_native": {"engine/native"},
    "huggingface_hub": {"gguf/download"},
    "textual": {"tui"},
    "platformdirs": {"paths"},
    "click": {"cli"},
    "jinja2": {"prompt/sandbox"},
    "starlette": {"serve"},
    "sse_starlette": {"serve/sse", "serve/dialects"},
    "uvicorn": {"serve/server", "serve/protocol"},
}


def door_of(path: Path) -> str:
    """`relaylite/engine/native.py` → engine/native; a folder likewise."""
    return str(path.relative_to(ROOT).with_suffix("")).removeprefix("relaylite/")


def type_only_imports_of(path: Path) -> set[str]:
    """Dotted names of what the file imports for type checkers alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    guarded = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [each for node in guarded for each in node.body if isinstance(each, ast.ImportFrom)]
    return {f"{each.module}.{alias.name}" for each in imports for alias in each.names}


@pytest.mark.parametrize("path", source_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_outside_things_have_one_door_each(path: Path) -> None:
    for thing, doors in DOORS.items():
        uses = any(thing in (name.split(".")[0], *name.split(".")[1:2]) for name in imports_of(path))
        assert not uses or {part_of(path), door_of(path), door_of(path.parent)} & doors, (
            f"{path.name} imports {thing}; only {', '.join(doors)} may"
        )


def test_a_door_of_several_modules_has_one_front() -> None:
    for path in [path for path in source_files() if path.parent.name != "llama"]:
        behind = {name for name in imports_of(path) if name.startswith("relaylite.engine.llama.") and name.count(".") > 3}
        assert not behind, f"{path.relative_to(ROOT)} reaches {', '.join(sorted(behind))}; import from relaylite.engine.llama"


def test_every_part_has_a_rule() -> None:
    parts = {part_of(path) for path in source_files()}
    assert parts - MAY_IMPORT.keys() == {"__init__", "__main__"}


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_parts_import_only_what_lies_below_them(part: str) -> None:
    for path in [path for path in source_files() if part_of(path) == part]:
        above = parts_imported(path) - MAY_IMPORT[part]
        assert not above, f"{path.relative_to(ROOT)} imports {', '.join(sorted(above))}"


def test_the_rules_have_no_cycle() -> None:
    """Taking away parts that depend on nothing left, again and again, leaves none."""
    left = dict(MAY_IMPORT)
    while free := [part for part, below in left.items() if not below & (left.keys() - {part})]:
        for part in free:
            del left[part]
    assert not left, f"these import one another: {', '.join(left)}"


@pytest.mark.parametrize("package", OPEN)
def test_others_reach_only_the_open_modules_of_a_package(package: str) -> None:
    for path in [path for path in source_files() if part_of(path) not in (package, "__init__")]:
        reached = {name.split(".")[2] for name in imports_of(path) if name.startswith(f"relaylite.{package}.")}
        assert reached <= OPEN[package], f"{path.relative_to(ROOT)} reaches into {package}: {', '.join(sorted(reached - OPEN[package]))}"


def test_the_terminal_ui_touches_no_engine() -> None:
    allowed = {"engine": {"interface"}, "chain": {"agents", "attachments", "sessions"}}
    for path in (ROOT / "tui").rglob("*.py"):
        for package, modules in allowed.items():
            run = imports_of(path) - type_only_imports_of(path)
            reached = {name.split(".")[2] for name in run if name.startswith(f"relaylite.{package}.")}
            assert reached <= modules, f"tui/{path.name} reaches {', '.join(sorted(reached - modules))} of {package}"


def test_folders_are_small_and_say_what_their_door_is() -> None:
    for folder in {path.parent for path in source_files()}:
        modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert len(modules) <= (MODULES_AT_THE_TOP if folder.name == "relaylite" else MODULES_IN_A_FOLDER), folder
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))), f"{folder}/__init__.py says nothing"


@pytest.mark.parametrize("path", [path for path in source_files() if path.name == "__init__.py"], ids=lambda path: path.parent.name)
def test_a_door_is_where_the_docstring_says(path: Path) -> None:
    for name, file in re.findall(r"`(\w+)` in `(\w+\.py)`", ast.get_docstring(tree_of(path)) or ""):
        defined = {getattr(node, "name", "") for node in tree_of(path.parent / file).body}
        assert name in defined, f"{path.relative_to(ROOT)} says that {name} is in {file}"


def loaded_by(statement: str) -> set[str]:
    """Top-level modules that a fresh Python has loaded after `statement`."""
    code = f"import sys\n{statement}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


HEAVY = {"llama_cpp", "textual", "huggingface_hub", "jinja2", "numpy"}


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ("import relaylite", set()),
        ("from relaylite import UsageError, Sampling", set()),
        ("from relaylite import Relay, Chain, Agent", {"jinja2", "numpy"}),
        ("import relaylite.settings.settings, relaylite.gguf.catalog", set()),
    ],
)
def test_an_import_loads_nothing_heavy(statement: str, allowed: set[str]) -> None:
    assert not loaded_by(statement) & (HEAVY - allowed)


def test_the_lazy_names_are_those_that_type_checkers_see() -> None:
    import relaylite

    tree = ast.parse((ROOT / "relaylite" / "__init__.py").read_text(encoding="utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {node.names[0].name: node.module for node in guarded.body if isinstance(node, ast.ImportFrom)}
    assert {name: f"relaylite.{module}" for name, module in relaylite._HOME.items()} == typed
    for name in relaylite._HOME:
        assert getattr(relaylite, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Rely'"):
        _ = relaylite.Rely
