"""An answer: Markdown that grows, in one widget however long it is.

Textual's Markdown mounts a widget for every paragraph and four for every list item; streaming 200 tokens/s into it took 0.45 of a
core here. This one keeps wrapped lines, parses only the block that is being written, and draws only what is on the screen.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from itertools import accumulate, zip_longest

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions
from textual.widget import Widget

from relaylite.terminal_text import fit_for_terminal
from relaylite.tui.text.changes import changed_region
from relaylite.tui.text.markdown_lines import MarkdownBlock, blocks_of
from relaylite.tui.text.search import places_of
from relaylite.tui.text.wrapped import Row, Selected, rows_of, text_of

HIT_STYLE = "underline $accent"
CURRENT_HIT_STYLE = "bold black on $accent"


@dataclass(slots=True)
class _Laid:
    """A block wrapped to a width, and the strips drawn so far."""

    block: MarkdownBlock
    rows: list[Row]
    strips: dict[int, Strip] = field(default_factory=dict)


class Answer(Widget):
    """Grows by `write`, settles by `settle`. A blank row follows each block but the last."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._source = ""
        self._open_at = 0  # characters of the source before the last block, which may still change
        self._open_line = 0
        self._laid: list[_Laid] = []
        self._n_settled = 0  # blocks before the last
        self._ends: list[int] = []  # row after each block
        self._wrap_width = 0
        self._hit, self._hit_line = "", -1
        self._take(fit_for_terminal(text))

    def write(self, text: str) -> None:
        """Append `text`."""
        n_rows, settled = self._n_rows, self._n_settled
        start, before = self._ends[settled - 1] if settled else 0, self._rows_behind(settled)
        self._take(fit_for_terminal(text))
        if self._n_rows != n_rows:
            self.refresh(layout=True)
            return
        changes = (changed_region(new, old, start + y) for y, (new, old) in enumerate(zip_longest(self._rows_behind(settled), before)))
        if regions := [region for region in changes if region is not None]:
            self.refresh(*regions)  # laying out the whole screen costs ten times a repaint, and a repaint ten times a row

    def settle(self, text: str) -> None:
        """Show `text`, whatever was written before."""
        text = fit_for_terminal(text)
        if text != self._source:
            self._source, self._open_at, self._open_line, self._n_settled, self._laid = "", 0, 0, 0, []
            self._take(text)
            self.refresh(layout=True)

    def mark(self, text: str, line: int) -> None:
        """Show where `text` stands, and stronger where it does on this line of the source; "" shows nothing."""
        if (text, line) != (self._hit, self._hit_line):
            self._hit, self._hit_line = text, line
            self._redraw()

    def row_of(self, line: int) -> int:
        """The row at which this line of the source is shown."""
        place = max(0, bisect_right([laid.block.start for laid in self._laid], line) - 1)
        if place >= len(self._laid):
            return 0
        inner = next((number for number, row in enumerate(self._laid[place].rows) if self._shows(row, line)), 0)
        return (self._ends[place - 1] if place else 0) + inner

    def _shows(self, row: Row, line: int) -> bool:
        return row.line.start <= line < row.line.end

    # -- keeping rows ------------------------------------------------------------------------------------------------

    @property
    def _n_rows(self) -> int:
        return max(0, self._ends[-1] - 1) if self._ends else 0

    def _rows_behind(self, settled: int) -> list[Content]:
        """What the rows of all blocks but the first `settled` ones show."""
        return [content for laid in self._laid[settled:] for content in (*(row.content for row in laid.rows), Content(""))]

    def _take(self, text: str) -> None:
        """Add text to the source and parse what is not settled."""
        self._source += text
        rest = self._source[self._open_at :]
        blocks = blocks_of(rest)
        del self._laid[self._n_settled :]
        offset = self._open_line
        self._laid += [self._lay(_moved(block, offset)) for block in blocks]
        if len(blocks) > 1:
            n_lines = blocks[-1].start
            self._open_at += sum(len(line) for line in rest.splitlines(keepends=True)[:n_lines])
            self._open_line += n_lines
            self._n_settled = len(self._laid) - 1
        self._count()

    def _lay(self, block: MarkdownBlock) -> _Laid:
        width = self._wrap_width or 80
        return _Laid(block, [row for line in block.lines for row in rows_of(line, width)])

    def _count(self) -> None:
        self._ends = list(accumulate(len(laid.rows) + 1 for laid in self._laid))

    def _wrap_to(self, width: int) -> None:
        if width != self._wrap_width and width > 0:
            self._wrap_width = width
            self._laid = [self._lay(laid.block) for laid in self._laid]
            self._count()

    def _redraw(self) -> None:
        for laid in self._laid:
            laid.strips.clear()
        self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._redraw()

    def on_resize(self, event: events.Resize) -> None:
        self._wrap_to(event.size.width)

    # -- drawing -----------------------------------------------------------------------------------------------------

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        self._wrap_to(width)
        return self._n_rows

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        place = bisect_right(self._ends, y)
        if place >= len(self._laid):
            return Strip.blank(width, self.rich_style)
        laid = self._laid[place]
        row = y - (self._ends[place - 1] if place else 0)
        if row >= len(laid.rows):
            return Strip.blank(width, self.rich_style).apply_offsets(0, y)
        selection = self.text_selection
        if selection is not None:
            return self._draw(laid.rows[row], width, selection.get_span(y)).apply_offsets(0, y)
        if row not in laid.strips:
            laid.strips[row] = self._draw(laid.rows[row], width, None)
        return laid.strips[row].apply_offsets(0, y)

    def _draw(self, row: Row, width: int, selected: tuple[int, int] | None) -> Strip:
        content = row.content
        if row.fill:
            content = content.pad_right(max(0, width - content.cell_length)).stylize_before(row.fill)
        for start, end in places_of(self._hit, content.plain) if self._hit else ():
            content = content.stylize(CURRENT_HIT_STYLE if self._shows(row, self._hit_line) else HIT_STYLE, start, end)
        if selected is not None:
            start, end = selected
            style = Style.from_styles(self.screen.get_component_styles("screen--selection"))
            content = content.stylize(style, start, None if end == -1 else end)
        strips = content.render_strips(width, 1, self.visual_style, RenderOptions(self._get_style, {}))
        return (strips[0] if strips else Strip.blank(width)).adjust_cell_length(width, self.rich_style)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text, without the breaks of wrapping."""
        rows = [row for laid in self._laid for row in (*laid.rows, None)]
        selected = []
        for y, row in enumerate(rows[:-1]):
            if (span := selection.get_span(y)) is not None:
                length = len(row.content.plain) if row is not None else 0
                start, end = span
                selected.append(Selected(row, min(start, length), length if end == -1 else min(end, length)))
        return text_of(selected), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()


def _moved(block: MarkdownBlock, lines: int) -> MarkdownBlock:
    """The block, `lines` further down in the source."""
    if not lines:
        return block
    moved = tuple(replace(line, start=line.start + lines, end=line.end + lines) for line in block.lines)
    return MarkdownBlock(block.start + lines, block.end + lines, moved)
