"""What the terminal gets: hostile text as signs in every widget, and no byte that it shows already."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

from rich.console import Console
from support.pty_app import PtyApp
from textual._compositor import ChopsUpdate
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip

from relaylite.tui.frugal import be_frugal, forget_screen
from relaylite.tui.text.changes import changed_region

HOSTILE = "\x1b]52;c;ZXZpbA==\x07\x1b]0;evil\x07\x1b[2J\x9b2J\x90evil\x9c\x1bcXX"
PASTED = "\x9b2J\x90evil\x9c \u202eXX"  # terminals leave Esc out of a paste themselves
OBEYED = re.compile(rb"\x1b\]52;c;ZXZpbA|\x1b\]0;evil|\x1b\[2J|\xc2\x9b|\xc2\x90|\x1bc")
AGENTS = """\
[evil]
instructions = "{text}"
"""


def test_no_widget_passes_on_what_a_terminal_would_obey(home: Path, tmp_path: Path) -> None:
    escaped = json.dumps(HOSTILE)[1:-1]
    (tmp_path / "agents.toml").write_text(AGENTS.format(text=escaped))
    preparation = f"""
engine.info = __import__("dataclasses").replace(engine.info, name={HOSTILE!r} + "model", warnings=({HOSTILE!r},))
engine.enqueue({HOSTILE!r} + "\\n\\n```" + {HOSTILE!r} + "\\n" + {HOSTILE!r} + "\\n```\\n| a |\\n|---|\\n| " + {HOSTILE!r} + " |\\n")
"""
    app = PtyApp("chat", "--agents", "evil", "--agents-file", str(tmp_path / "agents.toml"), preparation=preparation, size=(130, 40))
    try:
        app.wait_for("model")
        app.send(b"\x1b[200~" + PASTED.encode() + b"\x1b[201~\r")  # a paste, sent
        place = app.wait_for("TTFT")
        steps = (
            b"\x1b[20~",  # F9: the correction, and Esc
            b"\x1b",
            b"\x1b[19~",  # F8: the message back into the input
            b"\r",
            b"\x1bOS",  # F4: the agents
            b"\x1b",
            b"\x1bOR",  # F3: the map
            b"\x1b",
            b"\x06" + b"\x1b[200~" + PASTED.encode() + b"\x1b[201~",  # the Find line
            b"\x1b",
            b"\t",
            b"p",  # the prompt's parts
            b"b",
            b"w",
            b"\x1b[200~" + PASTED.encode() + b"\x1b[201~",  # a path
            b"\r",
            b"\x1b",
            b"\x0f",
            b"\x1b[200~" + PASTED.encode() + b"\x1b[201~\r",  # load a file of such a name
            b"\x10",
            *[b"\x1b"] * 5,
        )
        for keys in steps:
            app.send(keys)
            time.sleep(0.4)
        app.wait_for("XX", place)
        app.send(b"\x11")
        assert app.wait_end() == 0
        assert "\u241b]52".encode() in app.received
        begin, end = app.received.index(b"model"), app.received.rindex(b"\x1b[?1049l")
        found = OBEYED.findall(app.received[begin:end])
        assert not found, found
    finally:
        app.close()


def test_what_stands_on_the_screen_is_not_written_again() -> None:
    be_frugal()
    forget_screen()
    console = Console(color_system=None)

    def update(text: str, x1: int, x2: int) -> str:
        return ChopsUpdate(
            [{0: Strip.blank(3), 3: Strip([*Content(text).render_segments()])}], [(0, x1, x2)], [[3, 3 + len(text)]]
        ).render_segments(console)

    assert "hello" in update("hello", 3, 8) and "hello" not in update("hello", 3, 8)
    assert update("hellx", 7, 8) == "\x1b[1;8Hx"
    assert "hellx" in update("hellx", 3, 8), "after a part was written, the rest is not taken for known"
    forget_screen()
    assert "hellx" in update("hellx", 3, 8)


def test_the_changed_part_of_a_line_is_told() -> None:
    def region(new: str, old: str) -> Region | None:
        return changed_region(Content(new), Content(old), 2)

    assert region("same", "same") is None
    assert region("one two", "one") == Region(3, 2, 4, 1)
    assert region("one", "one two") == Region(3, 2, 4, 1)
    assert region("a 12 s z", "a 11 s z") == Region(3, 2, 1, 1)
    assert region("漢字x", "漢字y") == Region(4, 2, 1, 1)
    assert changed_region(Content.styled("ab", "bold"), Content("ab"), 0) == Region(0, 0, 2, 1)
