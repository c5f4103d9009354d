"""The files of native/ stand on one another without a circle, and a header declares what its own .cpp defines. Read off the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

NATIVE = Path(__file__).parent.parent.parent / "native"
HEADERS = sorted(NATIVE.rglob("*.h"))
BODIES = sorted(NATIVE.rglob("*.cpp"))
LINE_LENGTH, MODULES_IN_A_FOLDER = 120, 15
# Entries of relay.h that only read a value, or call nothing but noexcept functions. All others catch what is thrown.
THROW_NOTHING = {
    "relay_error_text", "relay_built_commit", "relay_built_tensor_overhead", "relay_extra_buffers_work", "relay_stop_free",
    "relay_stop_set", "relay_stop_get", "relay_stop_callback", "relay_capture_free", "relay_cache_close",
}  # fmt: skip
KEYWORDS = {"if", "for", "while", "switch", "return", "catch", "sizeof"}


def name_of(path: Path) -> str:
    """`native/graph/layers.h` → graph/layers.h, as includes name it."""
    return path.relative_to(NATIVE).as_posix()


@cache
def code(path: Path) -> str:
    """The file without comments, strings and preprocessor lines."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)
    return re.sub(r"^[ \t]*#[^\n]*(?<!\\)$", "", text, flags=re.MULTILINE)


def includes(path: Path) -> set[str]:
    """Names of the headers of native/ that the file includes."""
    found = set(re.findall(r'^#include "([\w/]+\.h)"', path.read_text(encoding="utf-8"), re.MULTILINE))
    return found & {name_of(header) for header in HEADERS}


def declared(path: Path) -> set[str]:
    """Functions and methods that are declared without a body: a name, its parameters, a semicolon."""
    text = re.sub(r"__attribute__\(\(.*?\)\)(?=;)", "", code(path))
    for body in defined(path).values():
        text = text.replace(body, "")
    return set(re.findall(r"(~?\w+)\s*\([^(){};]*\)(?:\s*(?:const|noexcept))*\s*;", text)) - KEYWORDS


def defined(path: Path) -> dict[str, str]:
    """Functions with a body, at any depth: name → body."""
    found = {}
    qualifiers = r"(?:\s+(?:const|noexcept))*"
    initialisers = r"(?:\s*:\s*\w+\s*\((?:[^;{}]*))?"
    for match in re.finditer(rf"(~?\w+)\s*\([^;{{}}]*?\){qualifiers}{initialisers}\s*\{{", code(path)):
        if match[1] not in KEYWORDS:
            found[match[1]] = body_at(code(path), match.end())
    return found


def body_at(text: str, start: int) -> str:
    depth, end = 1, start
    while depth:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    return text[start : end - 1]


def entries() -> set[str]:
    return {name for name in declared(NATIVE / "relay.h") if name.startswith("relay_")}


def test_the_reading_here_finds_what_is_there() -> None:
    assert len(entries()) > 25 and "relay_cache_open" in entries()
    assert "settle_order" in declared(NATIVE / "cache/order.h")
    assert {"place", "read_state_header", "put"} <= defined(NATIVE / "cache/state.cpp").keys()
    assert {"Draft", "draw", "inputs"} <= declared(NATIVE / "slice/draft.h")


def module_of(name: str) -> str:
    """graph/layers.h → graph/layers: a .cpp counts as part of its header."""
    return name.rpartition(".")[0]


def folder_of(name: str) -> str:
    """graph/layers.h → graph; at the top every module stands for itself."""
    return name.split("/")[0] if "/" in name else module_of(name)


@pytest.mark.parametrize(
    ("paths", "unit_of"),
    [(HEADERS, module_of), (HEADERS + BODIES, module_of), (HEADERS + BODIES, folder_of)],
    ids=["headers", "modules", "folders"],
)
def test_includes_have_no_circle(paths: list[Path], unit_of: Callable[[str], str]) -> None:
    """What a unit is built on is not built on it."""
    below: dict[str, set[str]] = {}
    for path in paths:
        unit = unit_of(name_of(path))
        below.setdefault(unit, set()).update({unit_of(name) for name in includes(path)} - {unit})
    while free := [unit for unit, needs in below.items() if not needs & below.keys()]:
        for unit in free:
            del below[unit]
    assert not below, f"these include one another: {', '.join(sorted(below))}"


@pytest.mark.parametrize("path", HEADERS + BODIES, ids=name_of)
def test_includes_name_the_folder(path: Path) -> None:
    quoted = set(re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE))
    assert [name for name in quoted - includes(path) if (path.parent / name).exists()] == []


@pytest.mark.parametrize("folder", sorted({path.parent for path in BODIES}), ids=lambda folder: folder.name)
def test_a_folder_is_small_enough_to_read(folder: Path) -> None:
    assert len(list(folder.glob("*.cpp"))) <= MODULES_IN_A_FOLDER


@pytest.mark.parametrize("header", [path for path in HEADERS if path.name != "relay.h"], ids=name_of)
def test_a_header_declares_what_its_own_source_defines(header: Path) -> None:
    source = header.with_suffix(".cpp")
    own = defined(source) if source.exists() else {}
    assert declared(header) <= own.keys() | defined(header).keys()


def test_every_entry_is_defined_once() -> None:
    homes = {name: [name_of(path) for path in BODIES if name in defined(path)] for name in entries()}
    assert {name: where for name, where in homes.items() if len(where) != 1} == {}


def test_no_exception_leaves_an_entry() -> None:
    bodies = {name: body for path in BODIES for name, body in defined(path).items() if name in entries()}
    bare = {name for name, body in bodies.items() if "guarded(" not in body and "catch (...)" not in body}
    assert bare == THROW_NOTHING


@pytest.mark.parametrize("path", [*HEADERS, *BODIES, NATIVE / "CMakeLists.txt"], ids=name_of)
def test_lines_are_not_too_long(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [n for n, line in enumerate(lines, 1) if len(line) > LINE_LENGTH] == []


def test_every_file_is_built_and_stands_in_the_readme() -> None:
    built, readme = ((NATIVE / name).read_text(encoding="utf-8") for name in ("CMakeLists.txt", "README.md"))
    assert {name_of(path) for path in BODIES} - set(re.findall(r"[\w/]+\.cpp", built)) == set()
    assert {module_of(name_of(path)) for path in HEADERS + BODIES} - {
        name.removesuffix(".h") for name in re.findall(r"`([\w/]+(?:\.h)?)`", readme)
    } == set()


def test_the_readme_lists_what_a_file_is_built_on_above_it() -> None:
    rows = re.findall(r"^\| `([\w/]+)(?:\.h)?` \|", (NATIVE / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    place = {module: number for number, module in enumerate(rows)}
    for path in HEADERS + BODIES:
        own = module_of(name_of(path))
        assert [name for name in includes(path) if place[module_of(name)] > place[own]] == [], own
