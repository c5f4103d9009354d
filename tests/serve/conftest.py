"""A server in a thread, on scripted completions: `script` says what they do, `server` is asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.live_server import LiveServer, live_server
from support.scripted_completions import ScriptedCompletions


@pytest.fixture
def script() -> ScriptedCompletions:
    return ScriptedCompletions()


@pytest.fixture
def server(script: ScriptedCompletions) -> Iterator[LiveServer]:
    with live_server(script) as server:
        yield server
