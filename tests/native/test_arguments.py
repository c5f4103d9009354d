"""Every entry of relay.h with bad arguments: a code and a text, never an abort, and nothing changed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.live_model import LiveModel, Part, opened

from relaylite.engine import native
from relaylite.engine.native import lib
from relaylite.errors import NativeError

ROOT = Path(__file__).parent.parent.parent
BAD_CALLS = Path(__file__).with_name("bad_calls.py")


@pytest.fixture(scope="module")
def answers(tiny_path: Path) -> list[tuple[str, int, str]]:
    program = [sys.executable, str(BAD_CALLS), str(tiny_path)]
    done = subprocess.run(program, capture_output=True, text=True, check=False, cwd=ROOT)
    lines = [tuple(json.loads(line)) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"ended after {lines[-1][0] if lines else 'nothing'}: {done.stderr[-2000:]}"
    return lines


def test_every_bad_call_has_a_code_and_a_text(answers: list[tuple[str, int, str]]) -> None:
    assert len(answers) > 150 and answers[-1][0] == "end"
    for name, code, text in answers[:-1]:
        expected = {lib.RELAY_BAD_ARGUMENT, lib.RELAY_NO_SPACE} if name.startswith("relay_cache_append") else {lib.RELAY_BAD_ARGUMENT}
        assert code in expected, f"{name} gave {code}"
        assert text and "\n" not in text, name


def test_no_entry_is_left_out() -> None:
    header = (ROOT / "native" / "relay.h").read_text(encoding="utf-8")
    entries = set(re.findall(r"^[a-z][\w *]*\b(relay_\w+)\(", header, re.MULTILINE))
    assert len(entries) > 25
    source = BAD_CALLS.read_text(encoding="utf-8")
    assert {entry for entry in entries if f"lib.{entry}(" not in source} == set()


def test_an_error_text_ends_with_the_next_call(tiny: LiveModel) -> None:
    with pytest.raises(NativeError, match="position outside the live sequence"):
        tiny.cache.truncate(5)
    assert native.text_of(lib.relay_error_text())
    len(tiny.cache)
    assert native.text_of(lib.relay_error_text()) == ""


def test_closed_objects_say_so(tiny_path: Path) -> None:
    with opened(tiny_path) as live:
        pass
    for call in (lambda: len(live.cache), lambda: live.capture.seek(0), lambda: live.stop.set(True), lambda: live.cache.read(0, 0)):
        with pytest.raises(NativeError, match="used after close"):
            call()
    live.cache.close()


def test_a_cache_may_be_closed_after_its_context(tiny_path: Path) -> None:
    with opened(tiny_path) as live:
        live.decode(live.tokens(4))
        live.context.close()


def test_shapes_that_do_not_match_are_refused_before_the_call(tiny: LiveModel) -> None:
    tiny.append([Part(4)])
    where = np.arange(4, dtype=np.int32)
    for arguments in ({"tokens": tiny.tokens(3)}, {"tokens": tiny.tokens(5)}, {"tokens": None}):
        with pytest.raises(NativeError):
            tiny.cache.slice((0, 1), where, **arguments)
    width = tiny.cache.info.n_embd
    for shape in ((3, width), (4, width - 1), (4 * width,)):
        with pytest.raises(NativeError, match="do not match 4 positions"):
            tiny.cache.slice((1, 2), where, hidden=np.zeros(shape, np.float32))
