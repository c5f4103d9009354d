"""Actions that start and stop: send, resume, retry, measure, cancel."""

from __future__ import annotations

import re
import time

from relaylite.tui.commands import in_place_of
from relaylite.tui.conversation import TurnRecord
from relaylite.tui.screens.main.desk import Desk

SLASH_COMMAND = re.compile(r"(/[A-Za-z?]+)(?:\s|$)")  # people type them out of habit; a path such as /etc/hosts is none


async def send(desk: Desk, text: str) -> None:
    """Let the agents answer `text`; an empty one goes on with those that have not answered yet."""
    state = desk.state
    if state.is_busy or state.is_measuring:
        desk.app.notify("The agents are still at work; Esc stops them.", severity="warning")
    elif not text.strip():
        if state.can_resume:
            resume(desk)
    elif command := SLASH_COMMAND.match(text):
        desk.app.notify(in_place_of(command[1], desk.app.replaced_keys), severity="warning", timeout=8)
    else:
        state.unsent.append(text)
        desk.parts.input.taken()
        if state.info is None:
            await desk.parts.transcript.show_waiting(text)
        _begin(desk)
        desk.engine.send(text, state.files, state.next_pause(0))


def resume(desk: Desk) -> None:
    """Go on after a pause, a stop or a failure."""
    if desk.state.missing and not desk.refuses_change():
        _begin(desk)
        desk.engine.resume(desk.state.next_pause(desk.state.missing[0]))


def _begin(desk: Desk) -> None:
    desk.state.begin()
    desk.parts.transcript.follow()


def cancel(desk: Desk) -> None:
    """Close the offered files or the search, if that has the focus; else stop what runs; else close the search. Then go to the input."""
    search = desk.parts.search
    if desk.parts.input.has_focus and desk.parts.input.leave_picker():
        return
    if desk.state.is_working and not search.has_focus_within:
        desk.engine.cancel()
    elif search.is_open:
        search.close()
        desk.parts.transcript.clear_mark()
    desk.parts.input.focus()


def retry_last(desk: Desk) -> None:
    if (last := desk.state.conversation.last) is not None:
        retry(desk, last)


def retry_round(desk: Desk) -> None:
    rounds = desk.state.conversation.rounds
    if rounds and rounds[-1].turns:
        retry(desk, rounds[-1].turns[0])


def retry(desk: Desk, record: TurnRecord) -> None:
    """Let that agent, and those after it, answer again. What there was stays a version of its own."""
    if not desk.refuses_change():
        if record.is_kept:
            desk.engine.drop(record.round, record.index)
        _begin(desk)
        desk.engine.resume(desk.state.next_pause(record.place))


def extend_last(desk: Desk) -> None:
    if (last := desk.state.conversation.last) is not None:
        extend(desk, last)


def extend(desk: Desk, record: TurnRecord) -> None:
    """Let an answer go on that was cut at its length, or stopped."""
    if record.finish_reason not in ("length", "cancelled"):
        desk.app.notify("This answer was not cut; R lets the agent write another one.", severity="warning")
    elif not desk.refuses_change():
        _begin(desk)
        desk.engine.extend(record.round, record.index, desk.state.next_pause(record.place))


def measure_shown(desk: Desk) -> None:
    record = desk.parts.inspector.record or desk.state.conversation.last
    if record is not None:
        measure(desk, record)


def measure(desk: Desk, record: TurnRecord) -> None:
    if not desk.refuses():
        desk.state.is_measuring, desk.state.measuring_since, desk.state.measured_turn = True, time.monotonic(), record
        desk.state.compared_with = ""
        desk.engine.measure(record.round, record.index)
