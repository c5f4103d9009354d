"""A worker that the tests of this folder share, and the places that they run in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.places import NAMES, Place, skip_unless_there, started_worker


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address. It serves one client at a time."""
    skip_unless_there("worker")
    with started_worker(tmp_path_factory.mktemp("worker") / "log") as (address, _):
        yield address


@pytest.fixture(scope="module", params=NAMES)
def place(request: pytest.FixtureRequest) -> Place:
    skip_unless_there(request.param)
    return Place(request.param, request.getfixturevalue("worker") if request.param.startswith("worker") else "")
