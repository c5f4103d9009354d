"""Choose a model: the catalogue, with what is on this machine and what would be fetched, or a path of one's own."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from relaylite.gguf.catalog import CatalogEntry, load_catalog
from relaylite.tui.screens.dialog import Dialog
from relaylite.tui.text import figures
from relaylite.tui.widgets.fields import LineField

log = logging.getLogger(__name__)


class ModelDialog(Dialog[str]):
    """Gives a name or a path. The engine's thread fetches and opens the model and reports how far it is.

    `current`: the name of the open model's file, "" if none is open.
    """

    title_text = "Model"
    hint = "Enter opens, fetching it first if need be · Esc leaves"

    class Found(Message):
        """Which models of the catalogue are on this machine, by name."""

        def __init__(self, is_here: Mapping[str, bool]) -> None:
            super().__init__()
            self.is_here = is_here

    def __init__(self, current: str) -> None:
        super().__init__()
        self._current = current

    def compose(self) -> ComposeResult:
        with self.frame():
            yield LineField(placeholder="a path to a GGUF file, or hf:owner/repo/file.gguf; or choose below", id="path", compact=True)
            yield OptionList(*(Option(self._line(entry, None), id=entry.name) for entry in load_catalog().values()))

    def on_mount(self) -> None:
        self.query_one(OptionList).highlighted = 0
        self.query_one(OptionList).focus()
        self.run_worker(self._look, thread=True, name="catalogue", exit_on_error=False)

    def _look(self) -> None:
        """Find out which models are here. In a thread: the first look at the hub's cache imports a large package.

        The dialog may be gone before this is done: then nobody reads the message.
        """
        try:
            self.post_message(self.Found({entry.name: entry.path() is not None for entry in load_catalog().values()}))
        except Exception:  # such as a cache that may not be read: the list stays without it
            log.exception("which models are on this machine is not known")

    def on_model_dialog_found(self, event: Found) -> None:
        for options in self.query(OptionList):  # none once the dialog is being taken down
            for entry in load_catalog().values():
                options.replace_option_prompt(entry.name, self._line(entry, event.is_here[entry.name]))

    def _line(self, entry: CatalogEntry, is_here: bool | None) -> Content:
        place = ("…", "$muted") if is_here is None else ("on this machine", "$success") if is_here else ("will be fetched", "$warning")
        return Content.assemble(
            ("● " if entry.file == self._current else "○ ", "bold"),
            (f"{entry.name:<20} ", "bold"),
            (f"{entry.params:>5} ", "$foreground"),
            (f"{figures.size(entry.bytes):>8} {entry.context // 1024:>4}k tokens  ", "$muted"),
            place,
            (f"\n  {entry.use} · {entry.licence}", "$muted"),
        )

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.answer(event.option_id)

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.answer(event.value.strip())
