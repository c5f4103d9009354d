"""Styled lines wrapped to a width: the rows that are shown, and the text that a selection of rows stands for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from textual.content import Content

from relaylite.tui.text.markdown_lines import Line

GAP = " │ "


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """`content` begins with `indent` characters that are not of the line; the others stand in the line from `start` on."""

    content: Content
    line: Line
    indent: int = 0
    start: int = 0

    @property
    def fill(self) -> str:
        return self.line.fill


@dataclass(frozen=True, slots=True)
class Selected:
    """Characters `[start, end)` of a row's content are selected. `row` is None for the space between two blocks."""

    row: Row | None
    start: int
    end: int


def rows_of(line: Line, width: int) -> list[Row]:
    """The rows of one line; continuations stand below the text, not below its marker."""
    if line.columns:
        return _table_rows(line, width)
    parts = line.content.wrap(max(2, width - len(line.first))) or [Content("")]
    rows, at = [], 0
    for number, part in enumerate(parts):
        at = max(at, line.content.plain.find(part.plain, at))
        lead = line.first if number == 0 else line.rest
        rows.append(Row(Content.assemble((lead, "" if line.fill else "$primary"), part), line, len(lead), at))
        at += len(part.plain)
    return rows


def text_of(selected: Iterable[Selected]) -> str:
    """The text behind selected rows: without the breaks of wrapping, and code as it was written."""
    texts = [_text_of_line(list(group)) for _, group in groupby(selected, key=lambda each: each.row.line if each.row else None)]
    return "\n".join(texts)


def _text_of_line(selected: list[Selected]) -> str:
    first, last = selected[0], selected[-1]
    if first.row is None or last.row is None:
        return ""
    line = first.row.line
    is_whole = first.row.start == 0 and first.start <= first.row.indent and last.end >= len(last.row.content.plain)
    if line.columns:
        return line.source or "" if is_whole else "\n".join(each.row.content.plain[each.start : each.end] for each in selected if each.row)
    if is_whole and line.source is not None and last.row.start + len(last.row.content.plain) - last.row.indent >= len(line.content.plain):
        return line.source
    marker = line.first[first.start :] if first.row.start == 0 and not line.fill else ""
    start = first.row.start + max(0, first.start - first.row.indent)
    end = last.row.start + max(0, last.end - last.row.indent)
    return marker + line.content.plain[start:end]


@lru_cache(64)
def fitted(columns: tuple[int, ...], room: int) -> tuple[int, ...]:
    """Widths of the columns that have room together: the widest ones are made narrower."""
    limit = max(columns)
    while limit > 1 and sum(min(column, limit) for column in columns) > room:
        limit -= 1
    return tuple(min(column, limit) for column in columns)


def _table_rows(line: Line, width: int) -> list[Row]:
    columns = fitted(line.columns, width - len(GAP) * (len(line.columns) - 1))
    if not line.cells:
        return [Row(Content.styled("─┼─".join("─" * column for column in columns), "$muted"), line)]
    cells = [cell.wrap(max(1, column)) or [Content("")] for cell, column in zip(line.cells, columns, strict=False)]
    rows = []
    for number in range(max(map(len, cells))):
        parts = [cell[number] if number < len(cell) else Content("") for cell in cells]
        padded = [part.pad_right(max(0, column - part.cell_length)) for part, column in zip(parts, columns, strict=False)]
        rows.append(Row(Content.styled(GAP, "$muted").join(padded), line, start=number))
    return rows
