"""Actions that show something: keys, settings, figures, cell map, search. They change nothing that runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from relaylite import paths
from relaylite.reuse.policies import parse_policy
from relaylite.settings.settings import Settings
from relaylite.tui import sampling_values
from relaylite.tui.conversation import TurnRecord
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


def open_search(desk: Desk) -> None:
    desk.parts.search.open()


async def find(desk: Desk, text: str, step: int) -> None:
    """Go to the next place that holds `text`, or the one before; with step 0 to the last one."""
    hits = search.find(desk.state.conversation, text)
    place = desk.parts.search.go(step, len(hits))
    if hits:
        await desk.parts.transcript.reveal(hits[place].item, hits[place].line, text)
