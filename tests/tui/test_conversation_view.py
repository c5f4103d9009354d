"""What the transcript shows of a running chain: blocks, streaming, folding, prompts, search, copying."""

from __future__ import annotations

import pytest
from support.app_driver import ask, drive, notices, say, screen_text, scripted_app, until
from support.fakes import FakeEngine
from textual.pilot import Pilot

from relaylite.tui.widgets.transcript import transcript
from relaylite.tui.widgets.transcript.blocks import MessageBlock, TurnBlock
from relaylite.tui.widgets.transcript.prompt_parts import PromptParts
from relaylite.tui.widgets.transcript.transcript import Earlier

CODE = "Here:\n\n```python\ndef f() -> int:\n    return 1\n```\n"


def test_each_turn_is_a_block_with_its_agent_and_markdown() -> None:
    engine = FakeEngine()
    engine.enqueue("1. *think*\n2. write", CODE, "fine")
    app = scripted_app(engine)

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "do it")
        message, *turns = app.main.parts.transcript.blocks
        assert isinstance(message, MessageBlock) and message.source == "do it"
        assert [turn.record.agent for turn in turns if isinstance(turn, TurnBlock)] == ["plan", "code", "review"]
        assert [turn.source for turn in turns] == ["1. *think*\n2. write", CODE, "fine"]
        shown = screen_text(app)
        assert "1. think" in shown and "*think*" not in shown and "```" not in shown
        code = next(strip for strip in app.main._compositor.render_strips() if "def f()" in strip.text)
        colors = [segment.style.color for segment in code for _ in segment.text if segment.style]
        at = code.text.index("def f()")
        assert colors[at] != colors[at + 4], "code is not highlighted"
        assert "TTFT" in shown

    drive(app, scenario)


def test_text_is_shown_while_it_is_written() -> None:
    engine = FakeEngine()
    engine.enqueue("slow words come one by one " + " ".join(map(str, range(120))))
    engine.token_delay = 0.005
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await say(pilot, "go")
        await until(pilot, lambda: "slow words" in screen_text(app))
        assert app.state.is_busy
        assert app.state.current is not None and app.state.current.state == "writing"

    drive(app, scenario)


def test_folding_hides_the_answer_and_unfolding_brings_it_back() -> None:
    engine = FakeEngine()
    engine.enqueue("a visible answer")
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        app.main.parts.transcript.blocks[-1].focus()
        await pilot.press("enter")
        await pilot.pause()
        assert "a visible answer" not in screen_text(app)
        await pilot.press("enter")
        await pilot.pause()
        assert "a visible answer" in screen_text(app)

    drive(app, scenario)


def test_an_answer_that_is_folded_while_it_streams_is_whole_when_unfolded() -> None:
    engine = FakeEngine()
    engine.enqueue("one two three four five")
    engine.token_gate.clear()
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await say(pilot, "go")
        await until(pilot, engine.in_generate.is_set)
        await until(pilot, lambda: len(app.main.parts.transcript.blocks) == 2)
        block = app.main.parts.transcript.blocks[-1]
        block.focus()
        await pilot.press("enter")
        engine.token_gate.set()
        await until(pilot, lambda: not app.state.is_busy)
        await pilot.press("enter")
        await pilot.pause()
        assert "one two three four five" in screen_text(app)

    drive(app, scenario)


def test_the_prompt_unfolds_with_the_origin_of_relayed_text() -> None:
    engine = FakeEngine()
    engine.enqueue("the plan says: walk both lists with two indices and take the smaller head", "done")
    app = scripted_app(engine, ["plan", "code"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "merge")
        app.main.parts.transcript.blocks[-1].focus()
        await pilot.press("p")
        await pilot.pause()
        shown = str(app.main.query_one(PromptParts).render())
        assert "from plan" in shown and "your message" in shown and "instructions" in shown
        assert "100 % of its cells taken over" in shown or "taken over in place" in shown
        await pilot.press("p")
        await pilot.pause()
        assert not app.main.query(PromptParts)

    drive(app, scenario)


def test_search_finds_lines_in_order_and_focuses_their_block() -> None:
    engine = FakeEngine()
    engine.enqueue("nothing here\n\nthe Needle\n", "another needle", "no")
    app = scripted_app(engine)

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "look for it")
        await pilot.press("ctrl+f", *"needle")
        await pilot.pause()
        bar = app.main.query_one("#search-result")
        assert "2 of 2" in str(bar.render())
        await pilot.press("enter")
        await pilot.pause()
        assert "1 of 2" in str(bar.render())
        await pilot.press("escape")
        assert app.focused is app.main.parts.input

    drive(app, scenario)


def test_copying_puts_a_blocks_text_on_the_clipboard() -> None:
    engine = FakeEngine()
    engine.enqueue("copy **me**")
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        app.main.parts.transcript.blocks[-1].focus()
        await pilot.press("c")
        await pilot.pause()
        assert app.clipboard == "copy **me**"
        assert any("Copied" in notice for notice in notices(app))

    drive(app, scenario)


def test_only_the_latest_blocks_are_mounted_and_earlier_ones_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "MOUNTED_LIMIT", 6)
    monkeypatch.setattr(transcript, "MORE_STEP", 4)
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        for number in range(7):
            await ask(pilot, f"message {number}")
        assert [block.source for block in app.main.parts.transcript.blocks][-1] == "Understood."
        assert len(app.main.parts.transcript.blocks) == 9  # 11 were too many: back to 6, then 3 more
        app.main.query_one(Earlier).focus()
        await pilot.press("enter")
        await pilot.pause()
        assert len(app.main.parts.transcript.blocks) == 13
        await pilot.press("enter")
        await until(pilot, lambda: len(app.main.parts.transcript.blocks) == 14)
        assert app.main.parts.transcript.blocks[0].source == "message 0"
        assert not app.main.query(Earlier)

    drive(app, scenario)


def test_scrolling_up_is_not_undone_by_new_text() -> None:
    engine = FakeEngine()
    engine.enqueue("\n\n".join(f"line {i}" for i in range(60)), "\n\n".join(f"more {i}" for i in range(60)))
    app = scripted_app(engine, ["plan", "code"])

    async def scenario(pilot: Pilot[None]) -> None:
        engine.token_delay = 0.002
        await say(pilot, "go")
        await until(pilot, lambda: app.main.parts.transcript.max_scroll_y > 20)
        app.main.parts.transcript.scroll_to(y=2, animate=False)
        await until(pilot, lambda: not app.state.is_busy)
        assert app.main.parts.transcript.scroll_y == 2

    drive(app, scenario)
