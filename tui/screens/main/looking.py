"""Actions that show something: keys, settings, figures, cell map, search. They change nothing that runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from relaylite import paths
from relaylite.reuse.policies import parse_policy
from relaylite.settings.settings import Settings
from relaylite.terminal_text import one_line
from relaylite.tui import sampling_values
from relaylite.tui.conversation import TurnRecord
from relaylite.tui.screens.dialog import ChoiceDialog
from relaylite.tui.screens.main import choosing
from relaylite.tui.screens.main.desk import Desk
from relaylite.tui.screens.map_screen import MapScreen
from relaylite.tui.screens.pages import HelpPage, SettingsPage
from relaylite.tui.text import search


def keys(desk: Desk) -> None:
    desk.app.push_screen(HelpPage(desk.app.replaced_keys))


def settings(desk: Desk) -> None:
    desk.app.push_screen(SettingsPage(in_force(desk), str(paths.settings_file()), sampling_values.own(desk.state.agents)))


def in_force(desk: Desk) -> Settings:
    """The settings with what was chosen in the app, or came with the conversation, since the start."""
    state, start, changed = desk.state, desk.app.settings, dict[str, Any]()
    if (names := tuple(agent.name for agent in state.agents)) != start.agents:
        changed["agents"] = names
    if state.policy != parse_policy(start.policy, start.fidelity):
        changed |= {"policy": state.policy.name, "fidelity": state.policy.fidelity}
    for name, value in state.sampling.items():
        in_words = getattr(Settings(), name, None) if value is None else value
        if hasattr(start, name) and in_words != getattr(start, name):
            changed[name] = in_words
    if state.model not in ("", start.model):
        changed["model"] = state.model
    return replace(start, **changed, sources={**start.sources, **dict.fromkeys(changed, "in this conversation")})


def toggle_panel(desk: Desk) -> None:
    """Wide, beside and alone are three things: what is hidden on a wide screen does not take the conversation's place on a narrow one."""
    main = desk.app.main
    main.toggle_class("-panel-off" if main.has_class("-wide") else "-panel-beside" if main.has_class("-medium") else "-panel-alone")


def cell_map(desk: Desk) -> None:
    show_map(desk, desk.parts.inspector.record or desk.state.conversation.last)


def show_map(desk: Desk, record: TurnRecord | None) -> None:
    turns = [turn for turn in desk.state.conversation.turns() if turn.cells is not None]
    desk.app.push_screen(MapScreen(turns, record, desk.engine.piece, desk.state.color_of))


def compare_last(desk: Desk) -> None:
    if (last := desk.state.conversation.last) is not None:
        compare(desk, last)


def compare(desk: Desk, record: TurnRecord) -> None:
    """Have the same prompt answered under another policy too. The conversation stays as it is."""

    def take(name: str | None) -> None:
        if name is not None and not desk.refuses():
            desk.state.is_measuring, desk.state.measured_turn, desk.state.compared_with = True, None, name
            desk.state.n_compared = 0
            desk.engine.compare(record.round, record.index, parse_policy(name))

    if desk.refuses():
        return
    if not record.is_kept:
        desk.app.notify("There is no answer to compare; Ctrl+R lets the agent try again.", severity="warning")
        return
    desk.app.push_screen(ChoiceDialog(f"Compare {one_line(record.agent, 30)}'s answer with", choosing.policies(), "full"), take)


def open_search(desk: Desk) -> None:
    desk.parts.search.open()


async def find(desk: Desk, text: str, step: int) -> None:
    """Go to the next place that holds `text`, or the one before; with step 0 to the last one."""
    hits = search.find(desk.state.conversation, text)
    place = desk.parts.search.go(step, len(hits))
    if hits:
        await desk.parts.transcript.reveal(hits[place].item, hits[place].line, text)
