"""No silent fallback: the app says once why a model cannot relay, on real models."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.app_driver import ask, drive, notices, screen_text, scripted_app
from support.refusing import REASONS, refusing_model
from textual.pilot import Pilot

from relaylite.reuse.policies import RELAY
from relaylite.settings.settings import load_settings
from relaylite.tui.engine.opener import ModelOpener


@pytest.mark.parametrize("kind", REASONS)
def test_the_app_says_once_why_it_does_not_relay(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = refusing_model(kind, tmp_path, monkeypatch)
    settings = load_settings({"model": str(path), "ctx": 1024, "threads": 1, "max_tokens": 4})
    app = scripted_app(agents=["plan", "code"], policy=RELAY, opener=ModelOpener(settings), settings=settings)

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "one")
        await ask(pilot, "two")
        assert "(prefix only)" in screen_text(app)
        assert notices(app) == [f"This model runs without relaying: {REASONS[kind]}"]

    drive(app, scenario)
