"""Model text is never markup and never a terminal command, and no text is an exception."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from support.app_driver import ask, drive, screen_text, scripted_app, until
from support.fakes import FakeEngine
from textual.pilot import Pilot

from relaylite.tui.text.markdown_lines import blocks_of
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
            assert app.main.chain.states == ["done"]

    drive(app, scenario)


def test_links_are_shown_with_their_target_and_cannot_be_clicked() -> None:
    app = scripted_app()

    async def scenario(pilot: Pilot[None]) -> None:
        answer = Answer("see [here](https://example.org/x) and ![cat](https://x.org/cat.png)")
        await app.main.transcript.mount(answer)
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
    return [row.plain for laid in answer._laid for row, _ in laid.rows]
