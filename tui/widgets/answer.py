"""An answer as Markdown: written as it streams, never obeyed. Links and HTML in model text are shown, not opened."""

from __future__ import annotations

from markdown_it import MarkdownIt
from textual.content import Content
from textual.widgets import Markdown
from textual.widgets.markdown import MarkdownBlock, MarkdownStream

from relaylite.tui.safe_text import safe_text


def _parser() -> MarkdownIt:
    return MarkdownIt("gfm-like", {"html": False, "linkify": False})


class Answer(Markdown):
    """Markdown that grows by `write` and settles by `settle`."""

    def __init__(self, text: str) -> None:
        super().__init__(safe_text(text), parser_factory=_parser, open_links=False)
        self._stream: MarkdownStream | None = None

    async def write(self, text: str) -> None:
        if self._stream is None:
            self._stream = Markdown.get_stream(self)
        await self._stream.write(safe_text(text))

    async def settle(self, text: str) -> None:
        """The whole text at once: what arrived in pieces is parsed again as one."""
        await self.end_stream()
        await self.update(safe_text(text))

    async def end_stream(self) -> None:
        if self._stream is not None:
            stream, self._stream = self._stream, None
            await stream.stop()

    def on_markdown_link_clicked(self, event: Markdown.LinkClicked) -> None:
        event.stop()
        self.app.notify(safe_text(event.href), title="The link leads to", markup=False)

    def block_at(self, line: int) -> MarkdownBlock | None:
        """The paragraph, list or fence that shows this line of the source."""
        blocks = [block for block in self.children if isinstance(block, MarkdownBlock)]
        return next((block for block in blocks if block.source_range[0] <= line < block.source_range[1]), blocks[-1] if blocks else None)


def plain(text: str) -> Content:
    """Text as it is, cleaned."""
    return Content(safe_text(text))
