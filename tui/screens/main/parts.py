"""The widgets that the main screen is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from relaylite.tui.files import History
from relaylite.tui.run_state import RunState
from relaylite.tui.widgets.chain_strip import ChainStrip
from relaylite.tui.widgets.file_picker import FilePicker
from relaylite.tui.widgets.inspector.inspector import Inspector
from relaylite.tui.widgets.notice_bar import NoticeBar
from relaylite.tui.widgets.prompt_input import PromptInput
from relaylite.tui.widgets.search_bar import SearchBar
from relaylite.tui.widgets.status import StatusLine, TopBar
from relaylite.tui.widgets.transcript.transcript import Transcript


@dataclass(frozen=True, slots=True)
class MainParts:
    """Top to bottom; transcript and inspector stand side by side."""

    top: TopBar
    chain: ChainStrip
    transcript: Transcript
    inspector: Inspector
    search: SearchBar
    notices: NoticeBar
    status: StatusLine
    picker: FilePicker
    input: PromptInput


def make_parts(state: RunState, piece: Callable[[int], str], history: History) -> MainParts:
    """The widgets for `state`; `piece` gives a token's text."""
    picker = FilePicker()
    return MainParts(
        top=TopBar(state.conversation),
        chain=ChainStrip(state.agents, state.policy),
        transcript=Transcript(state.conversation, state.color_at),
        inspector=Inspector(state.conversation, piece, state.color_of),
        search=SearchBar(),
        notices=NoticeBar(),
        status=StatusLine(),
        picker=picker,
        input=PromptInput(history, picker, id="input", placeholder=state.invitation),
    )
