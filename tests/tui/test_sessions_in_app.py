"""Conversations in the app are kept by themselves, listed, named and gone on with; nothing that was said is lost by a key."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.app_driver import ask, drive, notices, open_dialog, say, screen_text, scripted_app, until
from support.fakes import FakeEngine
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from relaylite.chain import sessions
from relaylite.chain.agents import Agent
from relaylite.chain.session import Session
from relaylite.errors import NativeError
from relaylite.settings.settings import load_settings
from relaylite.tui.app import RelayApp
from relaylite.tui.screens.agents_dialog import AgentsDialog
from relaylite.tui.screens.dialog import ChoiceDialog, PathDialog
from relaylite.tui.screens.pages import SettingsPage
from relaylite.tui.screens.sessions_dialog import NameDialog, SessionsDialog


def said(app: RelayApp) -> list[str]:
    """Messages and answers, as the transcript shows them."""
    return [block.source for block in app.main.parts.transcript.blocks]


def kept(name: str) -> list[list[str]]:
    data = sessions.load(name)
    return [[round["task"], *(turn["text"] for turn in round["turns"])] for round in data["rounds"]] if data else []


def names() -> list[str]:
    return sorted(entry.name for entry in sessions.sessions())


async def listed(pilot: Pilot[None]) -> OptionList:
    """The list of sessions, once it is filled."""
    await open_dialog(pilot, "f10", SessionsDialog)
    options = pilot.app.screen.query_one(OptionList)
    await until(pilot, lambda: options.option_count)
    return options


# kept by themselves


def test_a_conversation_is_kept_under_the_words_of_its_first_message_which_one_sees() -> None:
    app = scripted_app(FakeEngine(), ["plan"], session=Session())

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "Merge two lists")
        await until(pilot, lambda: app.state.session == "merge-two-lists")
        assert "merge-two-lists" in screen_text(app).splitlines()[0]
        assert kept("merge-two-lists") == [["Merge two lists", "Understood."]]

    drive(app, scenario)


@pytest.mark.parametrize("how", ["ctrl+n", "ctrl+o"])
def test_another_conversation_begins_a_session_of_its_own(how: str, tmp_path: Path) -> None:
    app = scripted_app(FakeEngine(), ["plan"], session=Session("work"))

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "first")
        if how == "ctrl+o":
            app.engine.save(tmp_path / "c.json")
            await until(pilot, lambda: notices(app))
            await open_dialog(pilot, how, PathDialog)
            app.screen.query_one(Input).value = str(tmp_path / "c.json")
            await pilot.press("enter")
        else:
            await pilot.press(how)
        await until(pilot, lambda: app.state.session == "")
        await ask(pilot, "second")
        await until(pilot, lambda: app.state.session)

    drive(app, scenario)
    assert kept("work") == [["first", "Understood."]]
    [other] = [name for name in names() if name != "work"]
    assert [round[0] for round in kept(other)] == (["second"] if how == "ctrl+n" else ["first", "second"])


def test_a_session_is_open_to_others_again_when_another_one_begins() -> None:
    app = scripted_app(FakeEngine(), ["plan"], session=Session("work"))

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "first")
        assert Session("work").is_read_only
        await pilot.press("ctrl+n")
        await until(pilot, lambda: app.state.session == "")
        assert not Session("work").is_read_only

    drive(app, scenario)


def test_the_second_app_can_read_and_not_write() -> None:
    sessions.save("work", kept_by_another())
    holder = Session("work")
    engine = FakeEngine()
    app = scripted_app(engine, ["plan"], session=Session("work"))

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: said(app) == ["yesterday", "Understood."])
        await until(pilot, lambda: any("it can only be read" in notice for notice in notices(app)))
        assert "work (read only)" in screen_text(app).splitlines()[0]
        await say(pilot, "mine")
        await until(pilot, lambda: len(notices(app)) > 1)
        assert app.main.parts.input.text == "mine" and not engine.plans
        for key in ("ctrl+r", "f8", "f9", "f7"):
            await pilot.press(key)
        await pilot.pause()
        assert said(app) == ["yesterday", "Understood."] and app.screen is app.main

    drive(app, scenario)
    assert kept("work") == [["yesterday", "Understood."]]
    holder.close()


def kept_by_another() -> dict:
    chain = scripted_chain()
    chain.run("yesterday")
    return chain.to_dict()


def scripted_chain():  # type: ignore[no-untyped-def]
    from support.scripted_chain import PLAN, chain_on

    return chain_on(FakeEngine(), PLAN)


# the list


def test_yesterdays_conversation_is_opened_from_the_list_and_goes_on() -> None:
    sessions.save("yesterday", kept_by_another())
    app = scripted_app(FakeEngine(), ["code", "review"], session=Session("today"))

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "today")
        options = await listed(pilot)
        options.highlighted = [options.get_option_at_index(at).id for at in range(2)].index("yesterday")
        await pilot.press("enter")
        await until(pilot, lambda: app.state.session == "yesterday")
        await until(pilot, lambda: said(app) == ["yesterday", "Understood."])
        assert [agent.name for agent in app.state.agents] == ["plan"]
        await ask(pilot, "more")

    drive(app, scenario)
    assert [round[0] for round in kept("yesterday")] == ["yesterday", "more"]
    assert [round[0] for round in kept("today")] == ["today"]


def test_sessions_are_searched_renamed_removed_and_restored_in_the_list() -> None:
    for name in ("one", "two", "three"):
        data = kept_by_another()
        data["rounds"][0]["task"] = f"about {name}"
        sessions.save(name, data)
    app = scripted_app(FakeEngine(), ["plan"], session=Session())

    async def scenario(pilot: Pilot[None]) -> None:
        options = await listed(pilot)
        await pilot.press("slash", *"about two")
        await until(pilot, lambda: [options.get_option_at_index(at).id for at in range(options.option_count)] == ["two"])
        await pilot.press("enter")
        await until(pilot, lambda: app.screen.focused is options)
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, NameDialog))
        app.screen.query_one(Input).value = "second"
        await pilot.press("enter")
        await until(pilot, lambda: names() == ["one", "second", "three"])
        await until(pilot, lambda: isinstance(app.screen, SessionsDialog) and options.get_option_at_index(0).id == "second")
        await pilot.press("delete")
        await until(pilot, lambda: names() == ["one", "three"])
        await pilot.press("u")
        await until(pilot, lambda: names() == ["one", "second", "three"])

    drive(app, scenario)


def test_the_conversation_that_is_open_is_renamed_in_the_list_and_not_removed() -> None:
    app = scripted_app(FakeEngine(), ["plan"], session=Session("work"))

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "first")
        await listed(pilot)
        await pilot.press("delete")
        await until(pilot, lambda: any("Begin another one" in notice for notice in notices(app)))
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, NameDialog))
        app.screen.query_one(Input).value = "lists"
        await pilot.press("enter")
        await until(pilot, lambda: app.state.session == "lists")
        await pilot.press("escape")
        await ask(pilot, "second")

    drive(app, scenario)
    assert names() == ["lists"] and len(kept("lists")) == 2


def test_a_damaged_session_in_the_list_changes_nothing() -> None:
    (sessions.paths.ensure(sessions.paths.sessions_folder()) / "bad.json").write_text("{")
    app = scripted_app(FakeEngine(), ["plan"], session=Session("work"))

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "first")
        app.engine.open_session("bad")
        await until(pilot, lambda: any("session bad is damaged" in notice for notice in notices(app)))
        app.engine.open_session("nobody")
        await until(pilot, lambda: any("there is no session nobody" in notice for notice in notices(app)))
        assert said(app) == ["first", "Understood."]
        await ask(pilot, "second")

    drive(app, scenario)
    assert len(kept("work")) == 2


# a way back


def test_a_retried_answer_has_versions_that_one_steps_through() -> None:
    engine = FakeEngine()
    engine.enqueue("one", "two", "three")
    app = scripted_app(engine, ["plan"], session=Session("work"))

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        for text in ("two", "three"):
            await pilot.press("ctrl+r")
            await until(pilot, lambda text=text: said(app) == ["go", text] and not app.state.is_busy)  # type: ignore[misc]
        await until(pilot, lambda: "plan ‹3/3›" in screen_text(app))
        app.main.parts.transcript.blocks[-1].focus()
        for key, text, mark in (("left", "two", "‹2/3›"), ("left", "one", "‹1/3›"), ("left", "one", "‹1/3›"), ("right", "two", "‹2/3›")):
            await pilot.press(key)
            await until(pilot, lambda text=text, mark=mark: said(app) == ["go", text] and mark in screen_text(app))  # type: ignore[misc]
            await until(pilot, lambda: app.focused is app.main.parts.transcript.blocks[-1])

    drive(app, scenario)
    assert kept("work") == [["go", "two"]]


def test_every_loss_by_a_key_can_be_undone() -> None:
    engine = FakeEngine()
    engine.enqueue("one", "two", "more")
    app = scripted_app(engine, ["plan"], session=Session("work"))

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: said(app) == ["go", "two"] and not app.state.is_busy)
        await pilot.press("f8")
        await until(pilot, lambda: said(app) == [])
        assert app.main.parts.input.text == "go"
        await pilot.press("f7")
        await until(pilot, lambda: said(app) == ["go", "two"])
        await pilot.press("f7")
        await until(pilot, lambda: said(app) == ["go", "one"])
        await pilot.press("shift+f7")
        await until(pilot, lambda: said(app) == ["go", "two"])
        app.engine.edit(0, 0, "corrected")
        await until(pilot, lambda: said(app) == ["go", "corrected"])
        await pilot.press("f7")
        await until(pilot, lambda: said(app) == ["go", "two"])

    drive(app, scenario)


def test_what_was_typed_is_not_lost_when_a_message_is_taken_back() -> None:
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        app.main.parts.input.insert("half a thought")
        await pilot.press("f8")
        await until(pilot, lambda: said(app) == [])
        assert app.main.parts.input.text == "go"
        await pilot.press("up")
        assert app.main.parts.input.text == "half a thought"

    drive(app, scenario)


def test_a_message_further_up_can_be_written_anew_and_both_stay() -> None:
    engine = FakeEngine()
    engine.enqueue("one", "two", "other")
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "first")
        await ask(pilot, "second")
        app.main.parts.transcript.blocks[0].focus()
        await pilot.press("e")
        await until(pilot, lambda: said(app) == [])
        app.main.parts.input.load_text("otherwise")
        await pilot.press("enter")
        await until(pilot, lambda: said(app) == ["otherwise", "other"] and not app.state.is_busy)
        await until(pilot, lambda: "you ‹2/2›" in screen_text(app))
        app.main.parts.transcript.blocks[0].focus()
        await pilot.press("left")
        await until(pilot, lambda: said(app) == ["first", "one", "second", "two"])

    drive(app, scenario)


def test_an_answer_further_up_can_be_retried() -> None:
    engine = FakeEngine()
    engine.enqueue("one", "two", "other")
    app = scripted_app(engine, ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "first")
        await ask(pilot, "second")
        app.main.parts.transcript.blocks[1].focus()
        await pilot.press("r")
        await until(pilot, lambda: said(app) == ["first", "other"] and not app.state.is_busy)
        await pilot.press("f7")
        await until(pilot, lambda: said(app) == ["first", "one", "second", "two"])

    drive(app, scenario)


def test_a_cut_answer_goes_on_in_its_block() -> None:
    engine = FakeEngine()
    engine.enqueue("first half,", "code", " second", "rest")
    agents = [Agent("plan", "Make a plan.", sampling={"max_tokens": 11}), "code"]
    app = scripted_app(engine, agents, session=Session("work"))

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        app.main.parts.transcript.blocks[1].focus()
        await pilot.press("g")
        await until(pilot, lambda: said(app) == ["go", "first half, second", "rest"] and not app.state.is_busy)
        app.main.parts.transcript.blocks[1].focus()
        await pilot.press("g")
        await until(pilot, lambda: any("was not cut" in notice for notice in notices(app)))
        await pilot.press("f7")
        await until(pilot, lambda: said(app) == ["go", "first half,", "code"])


def test_a_cut_answer_that_cannot_go_on_is_shown_as_it_was() -> None:
    engine = FakeEngine()
    engine.enqueue("first half,", " second")
    app = scripted_app(engine, [Agent("plan", "Make a plan.", sampling={"max_tokens": 11})])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        engine.fail("prefill", NativeError("decode returned -3"))
        app.main.parts.transcript.blocks[1].focus()
        await pilot.press("g")
        await until(pilot, lambda: any("decode returned -3" in notice for notice in notices(app)))
        await until(pilot, lambda: said(app) == ["go", "first half,"])

    drive(app, scenario)


def test_an_agent_put_between_finished_ones_answers_in_its_place() -> None:
    engine = FakeEngine()
    engine.enqueue("the plan", "the review", "the code")
    app = scripted_app(engine, ["plan", "review"])

    async def scenario(pilot: Pilot[None]) -> None:
        await ask(pilot, "go")
        await open_dialog(pilot, "f4", AgentsDialog)
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, ChoiceDialog))
        options = app.screen.query_one(OptionList)
        options.highlighted = next(at for at in range(options.option_count) if options.get_option_at_index(at).id == "code")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, AgentsDialog))
        await pilot.press("ctrl+d")
        await until(pilot, lambda: len(app.state.agents) == 3)
        app.main.parts.input.focus()
        await pilot.press("enter")
        await until(pilot, lambda: said(app) == ["go", "the plan", "the code", "the review"])
        await until(pilot, lambda: not app.state.is_busy)
        assert not app.state.can_resume
        app.engine.edit(0, 2, "better review")
        await until(pilot, lambda: said(app) == ["go", "the plan", "the code", "better review"])

    drive(app, scenario)


# what is in force


@pytest.mark.parametrize("flags", [{}, {"agents": "review", "policy": "full"}])
def test_a_session_goes_on_with_its_agents_and_policy_unless_flags_say_otherwise(flags: dict[str, str]) -> None:
    data = kept_by_another()
    data["policy"] = "relay:careful"
    sessions.save("work", data)
    app = scripted_app(FakeEngine(), ["plan", "code"], settings=load_settings(flags), session=Session("work"))
    agents, policy = ("review", "full") if flags else ("plan", "relay:careful")

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: said(app) == ["yesterday", "Understood."])
        assert [agent.name for agent in app.state.agents] == [agents] and app.state.policy.label == policy
        await until(pilot, lambda: f"policy {policy}" in screen_text(app).splitlines()[1])
        assert app.engine._jobs.chain is not None and app.engine._jobs.chain.policy.label == policy
        app.main.action_command("settings")
        await until(pilot, lambda: isinstance(app.screen, SettingsPage) and f"agents           {agents}" in screen_text(app))
        await until(pilot, lambda: f"policy           {policy.partition(':')[0]}" in screen_text(app))
        assert ("in this conversation" in screen_text(app)) is not bool(flags)

    drive(app, scenario, size=(120, 50))


def test_hostile_words_in_a_kept_conversation_are_shown_and_not_obeyed() -> None:
    data = kept_by_another()
    data["rounds"][0]["task"] = "clear\x1b[2J [red]it[/] \x1b]52;c;ZXZpbA==\x07"
    data["agents"][0]["name"] = "plan\x1b[2J"
    sessions.save("work", data)
    app = scripted_app(FakeEngine(), ["plan"])

    async def scenario(pilot: Pilot[None]) -> None:
        await listed(pilot)
        await until(pilot, lambda: "[red]it[/]" in screen_text(app))
        assert "\x1b" not in screen_text(app) and "\x07" not in screen_text(app)

    drive(app, scenario)
