"""Model text is never markup and never a terminal command, and no text is an exception."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from support.app_driver import ask, drive, open_dialog, screen_text, scripted_app, until
from support.fakes import FakeEngine
from textual import events
from textual.content import Content
from textual.pilot import Pilot

from relaylite.chain.agents import Agent
from relaylite.events import Turn
from relaylite.metrics import TurnMetrics
from relaylite.tui.engine import reports
from relaylite.tui.screens.agents_dialog import AgentsDialog
from relaylite.tui.screens.dialog import TextDialog
from relaylite.tui.text.markdown_lines import blocks_of
from relaylite.tui.widgets.chain_strip import AgentChip
from relaylite.tui.widgets.transcript.answer import Answer

HOSTILE = {
    "markup": "[/bold] [link=http://x]x[/link] [red]r[/] [@click=app.quit]q[/]",
    "osc52": "copy\x1b]52;c;ZXZpbA==\x07 done",
    "cursor": "up\x1b[10A\x1b[2Jclear\x1bcreset",
    "c1": "csi\x9b31mred \x90dcs\x9c",
    "nul": "a\x00b\x08\x08c\x7fd",
    "bidi": "abc\u202edcba\u202c \u2066x\u2069 \u200fy",
    "emoji": "family 👨‍👩‍👧‍👦 flag 🇩🇪 skin 👍🏽 wide 漢字",
    "html": "<b>bold</b> <|im_start|>system vector<int> &lt; &amp;",
    "link": "[click](javascript:alert(1)) ![img](file:///etc/passwd) <http://a.b>",
    "unclosed": "```python\nprint('[/]')\n**bold _it",
}


CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]")
SHOWN = {
    "markup": ["[/bold]", "[link=http://x]", "[red]r[/]"],
    "html": ["<b>bold</b>", "<|im_start|>", "vector<int>"],
    "osc52": ["␛]52"],
    "emoji": ["👨‍👩‍👧‍👦", "漢字", "👍🏽"],
}


def test_hostile_messages_and_answers_are_shown_and_not_obeyed() -> None:
    engine = FakeEngine(n_ctx=16_384)
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        for name, text in HOSTILE.items():
            engine.enqueue(text)
            await ask(pilot, text)
            await until(pilot, lambda: all(word in screen_text(app) for word in SHOWN.get(name, [])))  # noqa: B023
            assert not CONTROLS.search(screen_text(app)), name
            assert app.conversation.last is not None and app.conversation.last.text == text
            assert app.main.parts.chain.states == ["done"]

    drive(app, scenario)


def test_hostile_answers_and_instructions_are_not_obeyed_in_dialogs_either() -> None:
    engine = FakeEngine()
    engine.enqueue(HOSTILE["cursor"])
    app = scripted_app(engine, [Agent("plan", HOSTILE["osc52"])])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        await open_dialog(pilot, "f9", TextDialog)
        await until(pilot, lambda: "up␛[10A␛[2Jclear␛creset" in screen_text(app))
        await pilot.press("ctrl+d")
        await until(pilot, lambda: app.screen is app.main)
        await open_dialog(pilot, "f4", AgentsDialog)
        await until(pilot, lambda: "copy␛]52;c;ZXZpbA==␇ done" in screen_text(app))
        assert not CONTROLS.search(screen_text(app))
        await pilot.press("escape")
        tooltip = app.main.query_one(AgentChip).tooltip
        assert isinstance(tooltip, Content) and "copy␛]52" in tooltip.plain and "\x1b" not in tooltip.plain
        assert app.conversation.last is not None and not app.conversation.last.was_edited, "what was only shown counts as a correction"

    drive(app, scenario)


def test_hostile_notices_pastes_and_names_are_not_obeyed() -> None:
    app = scripted_app(FakeEngine(), ["plan"])
    hostile_turn = Turn("plan\x1b[2J", 0, 0, "text", (), "stop", TurnMetrics())

    async def scenario(pilot: Pilot[None]) -> None:
        app.notify("[red]no\x1b[2J[/]", title="t")
        await until(pilot, lambda: "[red]no␛[2J[/]" in screen_text(app))
        await pilot.press("ctrl+f")
        app.post_message(events.Paste("find\x1b[2J"))
        await until(pilot, lambda: "find␛[2J" in screen_text(app))
        app.engine.reports.put(reports.Loaded(None, (reports.LoadedRound("task", (), (hostile_turn,)),), app.state.agents))
        await until(pilot, lambda: "plan␛[2J" in screen_text(app))
        assert not CONTROLS.search(screen_text(app))

    drive(app, scenario)


def test_links_are_shown_with_their_target_and_cannot_be_clicked() -> None:
    app = scripted_app()

    async def scenario(pilot: Pilot[None]) -> None:
        answer = Answer("see [here](https://example.org/x) and ![cat](https://x.org/cat.png)")
        await app.main.parts.transcript.mount(answer)
        await pilot.pause()
        strip = answer.render_line(0)
        assert "here (https://example.org/x)" in strip.text and "[image: cat]" in strip.text
        assert not [segment for segment in strip if segment.style and segment.style.meta and "@click" in segment.style.meta]

    drive(app, scenario)


MARKDOWN = st.lists(
    st.sampled_from(
        [
            "# a",
            "- b",
            "  - c",
            "1. d",
            "> e",
            "```",
            "```py",
            "| x | y |",
            "|---|---|",
            "| 1 |",
            "***",
            "text",
            "",
            "    code",
            "<i>",
            "![](",
            "[a]: b",
            "~~~",
            "\t",
        ]
    ),
    max_size=30,
)


@given(MARKDOWN)
@settings(deadline=None)
def test_any_markdown_becomes_lines_and_ends_where_its_source_ends(pieces: list[str]) -> None:
    source = "\n".join(pieces)
    blocks = blocks_of(source)
    assert all(a.end <= b.start + 1 for a, b in pairwise(blocks))
    assert all(0 <= block.start <= block.end <= len(pieces) + 1 for block in blocks)


@given(MARKDOWN, st.lists(st.integers(1, 12), max_size=40))
@settings(deadline=None, max_examples=60)
def test_an_answer_written_in_pieces_looks_like_one_written_at_once(pieces: list[str], sizes: list[int]) -> None:
    source = "\n".join(pieces)
    grown, at = Answer(""), 0
    for size in sizes:
        grown.write(source[at : at + size])
        at += size
    grown.write(source[at:])
    whole = Answer(source)
    assert _rows(grown) == _rows(whole) or "[a]: b" in pieces  # a reference may stand behind its use


def _rows(answer: Answer) -> list[str]:
    return [row.content.plain for laid in answer._laid for row in laid.rows]
