"""In a clone everything works from its top folder, after a normal install as after an editable one: the source folder comes first there."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import relaylite

ROOT = Path(__file__).parent.parent


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A fresh Python in the clone's top folder, whose modules it finds first."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, env=variables, capture_output=True, text=True, check=False)


def test_an_import_finds_the_installed_package() -> None:
    done = python("-c", "import relaylite, relaylite.tui, relaylite.engine.native; print(relaylite.__file__)")
    assert (done.returncode, done.stdout.strip()) == (0, relaylite.__file__), done.stderr


def test_the_module_runs_as_the_command() -> None:
    done = python("-m", "relaylite", "--version")
    assert done.returncode == 0 and version("relaylite") in done.stdout, done.stderr


def test_the_tests_are_collected() -> None:
    done = python("-m", "pytest", "--collect-only", "-p", "no:cacheprovider", "tests/test_paths.py")
    assert done.returncode == 0 and "tests/test_paths.py::test_" in done.stdout, done.stdout + done.stderr


def test_the_example_runs() -> None:
    done = python("example.py")
    assert done.returncode == 0 and done.stdout.count("\n--- ") >= 4, done.stdout + done.stderr


@pytest.mark.parametrize("arguments", [("-c", "import relaylite"), ("-m", "relaylite")])
def test_where_it_is_not_installed_one_line_says_what_to_do(arguments: tuple[str, ...]) -> None:
    done = python("-S", *arguments)  # no packages but Python's own
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: relaylite is not installed in this Python ({sys.executable}); in {ROOT}: pip install '.[demo]'"
    )
