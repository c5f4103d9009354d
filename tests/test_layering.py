"""Dependencies point down, and outside things have one door each. Read off the source, and off what an import really loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
VALUES = {"errors", "loading", "rows", "policies", "plan", "metrics", "events", "sampling"}

# What each part may import of relaylite, besides itself. A part is a module or a folder; the order here is from the ground up.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "loading": {"errors"},
    "rows": {"loading"},
    "metrics": set(),
    "policies": {"errors"},
    "plan": {"rows", "policies"},
    "events": {"metrics"},
    "sampling": {"errors"},
    "cgroup": set(),
    "process": {"cgroup"},
    "textstream": set(),
    "sandbox": set(),
    "alignment": set(),
    "outline": {"alignment"},
    "values": {"errors", "paths"},
    "paths": {"errors"},
    "config": {"errors", "paths", "policies", "sampling", "values"},
    "modelfile": {"errors"},
    "adapters": {"errors", "modelfile", "paths"},
    "download": {"errors", "modelfile", "paths"},
    "catalog": {"download", "errors", "modelfile", "paths"},
    "agents": {"errors", "paths", "sampling"},
    "messages": {"errors"},
    "template": {"alignment", "errors", "outline", "paths", "sandbox"},
    "prompt": {"errors", "events", "messages", "outline", "rows", "template"},
    "fingerprint": {"paths"},
    "seam": VALUES | {"planner", "prompt", "template"},
    "planner": VALUES,
    "profile": VALUES | {"paths"},
    "prefillspeed": set(),
    "store": VALUES | {"paths", "prefillspeed"},
    "sessions": {"errors", "paths"},
    "devices": set(),
    "rpc": {"devices", "errors", "values"},
    "nativelog": set(),
    "llama": VALUES | {"nativelog"},
    "native": VALUES | {"llama"},
    "rowvalues": set(),
    "late": VALUES | {"native"},
    "rectify": VALUES | {"late", "native", "profile", "rowvalues", "seam", "selection"},
    "selection": VALUES,
    "selfcheck": VALUES | {"llama", "native", "rowvalues"},
    "sequence": VALUES | {"late", "llama", "native", "nativelog"},
    "past": VALUES | {"llama", "process", "sequence"},
    "writer": VALUES | {"llama", "native", "seam", "sequence", "textstream"},
    "footprint": VALUES | {"llama", "modelfile", "native", "process", "seam"},
    "engine": VALUES
    | {
        "adapters",
        "fingerprint",
        "footprint",
        "llama",
        "native",
        "past",
        "process",
        "profile",
        "rectify",
        "rpc",
        "seam",
        "selfcheck",
        "sequence",
        "template",
        "writer",
    },
    "attachments": {"errors", "paths"},
    "conversation": VALUES | {"agents", "attachments", "messages"},
    "runner": VALUES | {"planner", "prefillspeed", "prompt", "seam"},
    "turn": VALUES | {"planner", "prompt", "runner", "seam"},
    "settling": VALUES | {"planner", "runner"},
    "transcript": VALUES | {"agents", "attachments", "conversation", "prompt"},
    "result": VALUES,
    "unrelayed": VALUES,
    "chain": VALUES
    | {"agents", "attachments", "conversation", "messages", "process", "prompt", "result", "runner", "settling", "transcript", "turn"}
    | {"unrelayed"},
    "bench": VALUES
    | {"agents", "conversation", "engine", "messages", "native", "planner", "profile", "prompt", "rectify", "seam", "store"},
    "calibrate": VALUES | {"bench", "engine", "planner", "profile", "prompt", "rowvalues"},
    "api": VALUES | {"agents", "catalog", "chain", "engine", "process", "runner", "seam", "store"},
}
DOORS = {  # outside thing → the only parts that may import it
    "llama_cpp": {"devices", "llama", "native"},  # native only so that it is loaded first
    "_native": {"native"},
    "huggingface_hub": {"download"},
    "textual": {"tui"},
    "platformdirs": {"paths"},
    "click": {"cli"},
    "jinja2": {"sandbox"},
}


def source_files() -> list[Path]:
    return [path for folder in ("relaylite", "tui") for path in sorted((ROOT / folder).rglob("*.py"))]


def part_of(path: Path) -> str:
    """`relaylite/store/radix.py` → store, `tui/app.py` → tui, `relaylite/chain/chain.py` → chain."""
    inside = path.relative_to(ROOT)
    if inside.parts[0] == "tui":
        return "tui"
    return inside.parts[1].removesuffix(".py")


@cache
def imports_of(path: Path) -> set[str]:
    """Dotted names of all modules that the file imports, at the top or inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: write imports in full"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def parts_imported(path: Path) -> set[str]:
    """Parts of relaylite that the file imports."""
    return {name.split(".")[1] for name in imports_of(path) if name.startswith("relaylite.")} - {part_of(path), "_native"}


@pytest.mark.parametrize("path", source_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_outside_things_have_one_door_each(path: Path) -> None:
    for thing, doors in DOORS.items():
        uses = any(thing in (name.split(".")[0], *name.split(".")[1:2]) for name in imports_of(path))
        assert not uses or part_of(path) in doors, f"{path.name} imports {thing}; only {', '.join(doors)} may"


def test_every_part_has_a_rule() -> None:
    parts = {part_of(path) for path in source_files()}
    assert parts - MAY_IMPORT.keys() <= {"__init__", "__main__", "_native", "cli", "tui"}


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


def test_the_core_imports_neither_command_line_nor_terminal_ui() -> None:
    for path in source_files():
        if part_of(path) not in ("cli", "tui", "__init__", "__main__"):
            assert not parts_imported(path) & {"cli", "tui"}, path.name


def test_the_terminal_ui_touches_no_engine() -> None:
    for path in (ROOT / "tui").rglob("*.py"):
        below = parts_imported(path) & {"engine", "llama", "native", "rectify", "runner", "turn", "planner", "store", "chain"}
        assert not below, f"tui/{path.name} imports {', '.join(sorted(below))}"


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
