"""The files that an `@` in the input may mean, above the input. The input has the focus, and tells it what to do."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option


class FilePicker(OptionList, can_focus=False):
    """Takes no place while there is nothing to offer."""

    def __init__(self) -> None:
        super().__init__(id="file-picker", compact=True)
        self._files: list[str] = []

    @property
    def is_open(self) -> bool:
        return bool(self._files)

    @property
    def chosen(self) -> str:
        """The file that is marked."""
        return self._files[self.highlighted or 0]

    def offer(self, files: list[str]) -> None:
        """Show these files, the first one marked; none closes it."""
        if files != self._files:
            self._files = files
            self.clear_options()
            self.add_options(Option(Content(file)) for file in files)
            self.highlighted = 0 if files else None
            self.set_class(bool(files), "-open")

    def move(self, step: int) -> None:
        self.highlighted = ((self.highlighted or 0) + step) % len(self._files)
