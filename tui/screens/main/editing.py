"""Actions on what was said: correct, take back, copy; and what a block of the transcript asks for."""

from __future__ import annotations

from relaylite.terminal_text import fit_for_terminal
from relaylite.tui.conversation import RoundRecord, TurnRecord
from relaylite.tui.screens.dialog import TextDialog
from relaylite.tui.screens.main import code, looking, running, versions
from relaylite.tui.screens.main.desk import Desk
from relaylite.tui.text.corrections import corrected
from relaylite.tui.widgets.transcript.blocks import Block, MessageBlock, TurnBlock, Wish


def act_on(desk: Desk, block: Block, wish: Wish) -> None:
    """What a block of the transcript asked for."""
    if wish == "copy" and isinstance(block, MessageBlock | TurnBlock):
        copy(desk, block.source)
    elif isinstance(block, MessageBlock):
        if wish == "edit":
            branch_at(desk, block.round)
        elif wish in ("older", "newer"):
            versions.step(desk, block.round.version, (block.round.number, None), wish)
    elif isinstance(block, TurnBlock):
        record = block.record
        if wish in ("older", "newer"):
            versions.step(desk, record.version, (record.round, record.index), wish)
        else:
            acts = {
                "edit": edit,
                "retry": running.retry,
                "extend": running.extend,
                "measure": running.measure,
                "compare": looking.compare,
                "map": looking.show_map,
                "copy_code": code.copy,
                "write_code": code.write,
            }
            acts[wish](desk, record)


def edit_message(desk: Desk) -> None:
    if desk.state.conversation.rounds:
        branch_at(desk, desk.state.conversation.rounds[-1])


def branch_at(desk: Desk, round: RoundRecord) -> None:
    """Take a message back into the input. What followed it stays a version of its own; so does what was typed, in the history."""
    if not desk.refuses_change():
        had_draft = desk.parts.input.take_up(round.task)
        desk.engine.drop(round.number, None)
        desk.parts.input.focus()
        undo = desk.key_of("undo")
        desk.app.notify(f"{undo} brings back what was there." + (" ↑ brings back what you had typed." if had_draft else ""))


def edit_outside(desk: Desk) -> None:
    """What is in the input, in the user's editor."""
    desk.parts.input.focus()
    desk.parts.input.edit_outside()


def edit_last(desk: Desk) -> None:
    if (last := desk.state.conversation.last) is not None:
        edit(desk, last)


def edit(desk: Desk, record: TurnRecord) -> None:
    """Correct an answer; from then on its tokens are computed, not relayed."""
    if desk.refuses_change():
        return
    if not record.is_kept:
        desk.app.notify("There is no answer to correct; Ctrl+R lets the agent try again.", severity="warning")
        return

    def take(text: str | None) -> None:
        if text is not None and (new := corrected(record.text, text)) != record.text:
            desk.engine.edit(record.round, record.index, new)

    note = "What you change is read anew by the next agents instead of being taken over."
    desk.app.push_screen(TextDialog(f"Correct {record.agent}'s answer", record.text, note), take)


def copy_last(desk: Desk) -> None:
    if (last := desk.state.conversation.last) is not None:
        copy(desk, last.text)


def copy(desk: Desk, text: str) -> None:
    desk.app.copy_to_clipboard(fit_for_terminal(text))
    desk.app.notify(f"Copied {len(text):,} characters.", timeout=2)
