"""The files of native/ stand on one another without a circle, and a header declares what its own .cpp defines. Read off the text."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

NATIVE = Path(__file__).parent.parent.parent / "native"
SOURCES = sorted([*NATIVE.glob("*.h"), *NATIVE.glob("*.cpp")])
LINE_LENGTH = 120
# Entries of relay.h that only read a value, or call nothing but noexcept functions. All others catch what is thrown.
THROW_NOTHING = {
    "relay_error_text", "relay_built_commit", "relay_extra_buffers_work", "relay_stop_free", "relay_stop_set", "relay_stop_get",
    "relay_stop_callback", "relay_capture_free", "relay_cache_close",
}  # fmt: skip
KEYWORDS = {"if", "for", "while", "switch", "return", "catch", "sizeof"}


@cache
def code(path: Path) -> str:
    """The file without comments, strings and preprocessor lines."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)
    return re.sub(r"^[ \t]*#[^\n]*(?<!\\)$", "", text, flags=re.MULTILINE)


def includes(path: Path) -> set[str]:
    """Names of the files of this folder that the file includes."""
    found = set(re.findall(r'^#include "(\w+\.h)"', path.read_text(encoding="utf-8"), re.MULTILINE))
    return {name for name in found if (NATIVE / name).exists()}


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
    assert "settle_order" in declared(NATIVE / "cache_order.h")
    assert {"place", "read_state_header", "put"} <= defined(NATIVE / "cache_state.cpp").keys()
    assert {"Draft", "draw", "inputs"} <= declared(NATIVE / "slice_draft.h")


@pytest.mark.parametrize("depth", ["headers", "files with their headers"])
def test_includes_have_no_circle(depth: str) -> None:
    """Also if a .cpp counts as part of its header: what a file is built on is not built on it."""
    below: dict[str, set[str]] = {}
    for path in SOURCES if depth != "headers" else NATIVE.glob("*.h"):
        below.setdefault(path.stem, set()).update(name.removesuffix(".h") for name in includes(path) if name != f"{path.stem}.h")
    while free := [name for name, needs in below.items() if not needs & below.keys()]:
        for name in free:
            del below[name]
    assert not below, f"these include one another: {', '.join(sorted(below))}"


@pytest.mark.parametrize("header", [path for path in SOURCES if path.suffix == ".h" and path.name != "relay.h"], ids=lambda path: path.name)
def test_a_header_declares_what_its_own_source_defines(header: Path) -> None:
    source = header.with_suffix(".cpp")
    own = defined(source) if source.exists() else {}
    assert declared(header) <= own.keys() | defined(header).keys()


def test_every_entry_is_defined_once() -> None:
    homes = {name: [path.name for path in SOURCES if path.suffix == ".cpp" and name in defined(path)] for name in entries()}
    assert {name: where for name, where in homes.items() if len(where) != 1} == {}


def test_no_exception_leaves_an_entry() -> None:
    bodies = {name: body for path in SOURCES if path.suffix == ".cpp" for name, body in defined(path).items() if name in entries()}
    bare = {name for name, body in bodies.items() if "guarded(" not in body and "catch (...)" not in body}
    assert bare == THROW_NOTHING


@pytest.mark.parametrize("path", [*SOURCES, NATIVE / "CMakeLists.txt"], ids=lambda path: path.name)
def test_lines_are_not_too_long(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [n for n, line in enumerate(lines, 1) if len(line) > LINE_LENGTH] == []


def test_every_file_is_built_and_stands_in_the_readme() -> None:
    built, readme = ((NATIVE / name).read_text(encoding="utf-8") for name in ("CMakeLists.txt", "README.md"))
    assert [path.name for path in SOURCES if path.suffix == ".cpp" and not re.search(rf"(?<!\w){path.name}", built)] == []
    assert {path.stem for path in SOURCES} - {Path(name).stem for name in re.findall(r"`(\w+)(?:\.\w+)?`", readme)} == set()
