"""No silent fallback: what runs on a model that cannot relay says so once, with the reason, in text and in JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import Invoke
from support.refusing import NOTICE, REASONS, refusing_model

OPTIONS = ("--agents", "plan,code", "--max-tokens", "4", "--ctx", "1024", "--threads", "1")


@pytest.mark.parametrize("kind", REASONS)
def test_a_run_says_once_why_it_does_not_relay(kind: str, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = refusing_model(kind, tmp_path, monkeypatch)
    notice = NOTICE.format(REASONS[kind])
    shown = invoke("run", "Hello.", "-m", str(path), "--policy", "relay", *OPTIONS)
    assert shown.exit_code == 0 and shown.stderr.count(f"note: {notice}\n") == shown.stderr.count(REASONS[kind]) == 1
    document = json.loads(invoke("run", "Hello.", "-m", str(path), "--policy", "relay", "--json", *OPTIONS).stdout)
    assert (document["notices"], document["policy"], document["error"]) == ([notice], "prefix", None)
    assert not any(turn["span_tokens"] for turn in document["agents"])
    spoken = invoke("chat", "--plain", "-m", str(path), "--policy", "relay", *OPTIONS, input="Hello.\nAgain.\n")
    assert spoken.exit_code == 0 and spoken.stdout.count("## code") == 2 and spoken.stderr.count(notice) == 1
    wanted = invoke("run", "Hello.", "-m", str(path), "--policy", "prefix", *OPTIONS)
    assert wanted.exit_code == 0 and REASONS[kind] not in wanted.stderr


@pytest.mark.parametrize("kind", REASONS)
def test_info_and_what_measures_relaying_name_the_reason(
    kind: str, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = refusing_model(kind, tmp_path, monkeypatch)
    assert f"off: {REASONS[kind]}" in invoke("info", str(path), "--threads", "1").stdout
    profile = invoke("profile", str(path), "--threads", "1")
    assert profile.exit_code == 2 and REASONS[kind] in profile.stderr
