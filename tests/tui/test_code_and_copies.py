"""Code and text leave the app as they were written: by the mouse, by keys, into files. Tables fit, hits stand out."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.app_driver import ask, drive, notices, scripted_app, until
from support.fakes import FakeEngine
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection
from textual.widgets import Input

from relaylite.chain.attachments import attached_in
from relaylite.errors import UsageError
from relaylite.plugins.fences import with_closed_fence
from relaylite.tui import files
from relaylite.tui.conversation import RoundRecord, TurnRecord
from relaylite.tui.screens.dialog import ChoiceDialog, PathDialog
from relaylite.tui.screens.overwrite_dialog import OverwriteDialog
from relaylite.tui.text.markdown_lines import blocks_of
from relaylite.tui.text.search import places_of
from relaylite.tui.text.wrapped import rows_of
from relaylite.tui.widgets.transcript.answer import Answer

CODE = "def f(x):\n\tif x:\n\t\treturn x  \n\n    # end\n"
LONG = " ".join(f"word{i}" for i in range(40))
ANSWER = f"{LONG}\n\n```python\n{CODE}```\n\n- a list\n- of **two**\n\nDone."


def test_the_mouse_copies_code_as_it_was_written_and_no_breaks_of_wrapping() -> None:
    app = scripted_app()

    async def scenario(pilot: Pilot[None]) -> None:
        answer = Answer(ANSWER)
        await app.main.parts.transcript.mount(answer)
        await pilot.pause()
        text, _ = answer.get_selection(Selection(None, None)) or ("", "")
        assert text == f"{LONG}\n\n{CODE}\n• a list\n• of two\n\nDone."
        rows = [row for laid in answer._laid for row in [*laid.rows, None]]
        first = next(y for y, row in enumerate(rows) if row is not None and row.line.source == "\tif x:")
        text, _ = answer.get_selection(Selection(Offset(0, first), Offset(99, first + 1))) or ("", "")
        assert text == "\tif x:\n\t\treturn x  "
        text, _ = answer.get_selection(Selection(Offset(4, 0), Offset(7, 1))) or ("", "")
        assert text == LONG[4 : rows[1].start + 7]  # type: ignore[union-attr]

    drive(app, scenario)


def test_a_table_that_is_too_wide_keeps_its_columns() -> None:
    source = "| name | what it does |\n|---|---|\n| relay | " + "takes rows over and repairs them " * 4 + "|\n| full | nothing |"
    [block] = blocks_of(source)
    for width in (60, 30, 12):
        rows = [row.content.plain for line in block.lines for row in rows_of(line, width)]
        bars = [row.index("│") if "│" in row else row.index("┼") for row in rows]
        assert len(set(bars)) == 1 and all(len(row) <= width for row in rows)
        assert "".join("".join(row.split("│")[-1].split()) for row in rows).count("takesrows") == 4 or width == 12


def test_a_fence_that_was_cut_does_not_swallow_the_rest_of_the_export() -> None:
    turns = [TurnRecord("plan", 0, 0, text="Look:\n\n~~~~py\nx = 1"), TurnRecord("code", 1, 0, text="```\nwhole\n```")]
    document = files.markdown_of([RoundRecord("task", 0, turns=turns)], "m", "relay")
    headings = [block for block in blocks_of(document) if len(block.lines) == 1 and block.lines[0].content.plain in ("plan", "code")]
    assert len(headings) == 2
    for text in ("```\nwhole\n```", "text", "- a\n  ```\n  cut", "", "    code"):
        assert with_closed_fence(text) == text


@pytest.mark.parametrize(
    ("text", "wanted", "found"),
    [
        ("straße groß weiß", "weiß", ["weiß"]),
        ("İİ istanbul İstanbul", "istanbul", ["istanbul"]),
        ("ẞ STRASSE", "straße", ["STRASSE"]),
        ("a", "", []),
    ],
)
def test_marks_stand_on_what_was_found(text: str, wanted: str, found: list[str]) -> None:
    assert [text[start:end] for start, end in places_of(wanted, text)] == found


def test_the_current_hit_stands_out_from_the_others() -> None:
    engine = FakeEngine()
    engine.enqueue("needle one\n\n```\na\nneedle two\nneedle three\n```")
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "needle in the message")
        await pilot.press("ctrl+f", *"needle", "up")
        await pilot.pause(0.1)
        answer = app.main.query_one(Answer)
        bold = []
        for y in range(answer.size.height):
            strip = answer.render_line(y)
            bold += [y for segment in strip if "needle" in segment.text and segment.style and segment.style.bold]
        assert len(bold) == 1 and "two" in answer.render_line(bold[0]).text

    drive(app, scenario)


def test_a_code_block_is_copied_and_written_and_nothing_is_overwritten_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    engine = FakeEngine()
    engine.enqueue("One:\n\n```python\n# merge.py\nnew = 1\n```\n\nTwo:\n\n```sh\nls\n```")
    app = scripted_app(engine, ["plan"])

    async def write(pilot: Pilot[None]) -> None:
        app.main.parts.transcript.blocks[-1].focus()
        await pilot.press("w")
        await until(pilot, lambda: isinstance(app.screen, ChoiceDialog))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, PathDialog) and app.screen.query(Input))
        assert app.screen.query_one(Input).value == "merge.py"
        await pilot.press("enter")

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        await write(pilot)
        await until(pilot, lambda: (tmp_path / "merge.py").exists())
        assert (tmp_path / "merge.py").read_text() == "# merge.py\nnew = 1\n"
        (tmp_path / "merge.py").write_text("# merge.py\nold = 1\n")
        await write(pilot)
        await until(pilot, lambda: isinstance(app.screen, OverwriteDialog) and app.screen.query("Button"))
        await pilot.press("enter", "escape")
        await until(pilot, lambda: app.screen is app.main)
        assert (tmp_path / "merge.py").read_text() == "# merge.py\nold = 1\n"
        await write(pilot)
        await until(pilot, lambda: isinstance(app.screen, OverwriteDialog) and app.screen.query("Button"))
        shown = "\n".join(str(each.render()) for each in app.screen.query("VerticalScroll Static"))  # type: ignore[attr-defined]
        assert "-old = 1" in shown and "+new = 1" in shown
        await pilot.press("ctrl+d")
        await until(pilot, lambda: "new" in (tmp_path / "merge.py").read_text())
        app.main.parts.transcript.blocks[-1].focus()
        await pilot.press("b")
        await until(pilot, lambda: isinstance(app.screen, ChoiceDialog))
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.clipboard == "ls\n")

    drive(app, scenario)


@pytest.mark.parametrize("name", ["save", "export", "screenshot"])
def test_conversations_and_pictures_ask_before_they_overwrite(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        app.main.action_command(name)
        await until(pilot, lambda: isinstance(app.screen, PathDialog) and app.screen.query(Input))
        path = Path(app.screen.query_one(Input).value)
        path.write_text("mine")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, OverwriteDialog))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.main)
        assert path.read_text() == "mine"
        app.main.action_command(name)
        await until(pilot, lambda: isinstance(app.screen, PathDialog) and app.screen.query(Input))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, OverwriteDialog) and app.screen.query("Button"))
        await pilot.press("ctrl+d")
        await until(pilot, lambda: path.read_text() != "mine")
        assert any("Saved" in notice for notice in notices(app))

    drive(app, scenario)


def test_a_file_with_spaces_in_its_name_is_attached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my file.py").write_text("x = 1\n")
    (tmp_path / "plain.py").write_text("y = 2\n")
    found, missing = attached_in('Look at @"my file.py", @\'my file.py\' and @plain.py, not at @"no file.py" or a@b.c.')
    assert [file.source for file in found] == ["my file.py", "plain.py"] and missing == ['@"no file.py"']


def test_loading_what_is_no_file_is_refused_at_once() -> None:
    for path in ("/dev/zero", "/dev", "/no/such/file"):
        with pytest.raises(UsageError) as refusal:
            files.read_json(Path(path))
        assert path in str(refusal.value)
