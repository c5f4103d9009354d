"""One version of llama-cpp-python, and the same one wherever it is written."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from relaylite.machine.installation import LLAMA_CPP_PYTHON, build_command, install_command

ROOT = Path(__file__).parent.parent.parent
PIN = f"llama-cpp-python=={LLAMA_CPP_PYTHON}"


def test_the_project_pins_it_to_build_and_to_run() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for needed in (project["build-system"]["requires"], project["project"]["dependencies"]):
        assert [each for each in needed if each.startswith("llama-cpp-python")] == [PIN]


@pytest.mark.parametrize("page", ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").glob("*.md")))])
def test_a_page_that_says_how_to_install_it_says_the_same(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert set(re.findall(r"llama-cpp-python==[\w.]*\d", text)) <= {PIN}


def test_the_readme_builds_it_as_relaylite_says() -> None:
    readme = re.sub(" +", " ", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert build_command("-DGGML_CUDA=on") in readme and LLAMA_CPP_PYTHON in readme
    assert install_command().endswith(PIN)
