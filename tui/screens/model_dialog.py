"""Choose a model: the catalogue, with what is on this machine and what would be fetched, or a path of one's own."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from relaylite.catalog import CatalogEntry, load_catalog
from relaylite.tui import figures
from relaylite.tui.screens.dialog import Dialog


class ModelDialog(Dialog[str]):
    """Gives a name or a path; fetching and opening is the engine's thread's business, which reports its progress."""

    title_text = "Model"
    hint = "Enter opens, fetching it first if need be · Esc leaves"

    def __init__(self, current: str) -> None:
        super().__init__()
        self._current = current

    def content(self) -> ComposeResult:
        yield OptionList(*(Option(self._line(entry), id=entry.name) for entry in load_catalog().values()))
        yield Input(placeholder="or a path to a GGUF file, or hf:owner/repo/file.gguf", id="path")

    def _line(self, entry: CatalogEntry) -> Content:
        is_here = entry.path() is not None
        place = ("on this machine", "$success") if is_here else (f"fetch {figures.size(entry.bytes)}", "$warning")
        return Content.assemble(
            ("● " if entry.name == self._current else "○ ", "bold"),
            (f"{entry.name:<20} ", "bold"),
            (f"{entry.params:>5} ", "$foreground"),
            (f"{figures.size(entry.bytes):>8}  ", "$muted"),
            place,
            (f"\n  {entry.use} · {entry.licence} · context {figures.count(entry.context)}", "$muted"),
        )

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.dismiss(event.value.strip())
