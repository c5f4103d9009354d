"""Markdown as styled lines: what a block of an answer looks like, before it is wrapped to a width. No widgets.

Everything in the text is shown: HTML as it stands, links with their target. Nothing can be clicked or obeyed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token
from textual.content import Content
from textual.highlight import highlight

HIGHLIGHT_LIMIT = 20_000  # characters of a fence beyond which it is not coloured
CODE_STYLE = "$foreground on $surface"
INLINE_CODE_STYLE = "$accent"
_INLINE_STYLES = {"em": "italic", "strong": "bold", "s": "strike", "link": "underline"}
_HEADING_STYLES = {"h1": "bold $primary underline", "h2": "bold $primary", "h3": "bold $secondary"}

PARSER = MarkdownIt("gfm-like", {"html": False, "linkify": False})


@dataclass(frozen=True, slots=True)
class Line:
    """One line before wrapping. `first` stands before it, `rest` before its continuations; `fill` styles the whole width."""

    content: Content
    first: str = ""
    rest: str = ""
    fill: str = ""


@dataclass(frozen=True, slots=True)
class MarkdownBlock:
    """A top-level block: paragraph, heading, list, fence, … `[start, end)` are lines of the source that was parsed."""

    start: int
    end: int
    lines: tuple[Line, ...]


def blocks_of(source: str) -> list[MarkdownBlock]:
    """The top-level blocks of `source`, in order."""
    blocks: list[MarkdownBlock] = []
    group: list[Token] = []
    for token in PARSER.parse(source):
        group.append(token)
        if token.level == 0 and token.nesting <= 0:
            bounds = next((each.map for each in group if each.map), None) or [blocks[-1].end if blocks else 0] * 2
            blocks.append(MarkdownBlock(bounds[0], bounds[1], tuple(_lines(group))))
            group = []
    return blocks


def _lines(tokens: list[Token]) -> Iterator[Line]:
    """Lines of one top-level block."""
    if tokens[0].type == "table_open":
        yield from _table(tokens)
        return
    markers: list[str] = []  # of the lists and quotes around; spaces once a marker was shown
    heading = ""
    for token in tokens:
        kind = token.type
        if kind == "list_item_open":
            markers.append(f"{token.info}. " if token.info else "• ")
        elif kind == "blockquote_open":
            markers.append("▎ ")
        elif kind in ("list_item_close", "blockquote_close"):
            markers.pop()
        elif kind == "heading_open":
            heading = _HEADING_STYLES.get(token.tag, "bold")
        elif kind == "heading_close":
            heading = ""
        elif kind == "hr":
            yield Line(Content.styled("─" * 24, "$muted"))
        elif kind in ("fence", "code_block"):
            yield from _code(token, "".join(_spent(markers)))
        elif kind == "inline":
            content = _inline(token)
            yield from _paragraph(content.stylize(heading) if heading else content, markers)
            markers = _spent(markers)


def _spent(markers: list[str]) -> list[str]:
    return [marker if marker == "▎ " else " " * len(marker) for marker in markers]


def _paragraph(content: Content, markers: list[str]) -> Iterator[Line]:
    first, rest = "".join(markers), "".join(_spent(markers))
    for part in content.split("\n", allow_blank=True):
        yield Line(part, first, rest)
        first = rest


def _code(token: Token, indent: str) -> Iterator[Line]:
    code = token.content.rstrip("\n").expandtabs(4)
    language = token.info.split()[0] if token.info.strip() else None
    content = highlight(code, language=language) if 0 < len(code) <= HIGHLIGHT_LIMIT else Content(code)
    for line in content.split("\n", allow_blank=True):
        yield Line(line, f"{indent} ", f"{indent} ", CODE_STYLE)


def _table(tokens: list[Token]) -> Iterator[Line]:
    rows: list[list[Content]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(_inline(token))
    widths = [max(row[column].cell_length for row in rows if column < len(row)) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [cell.pad_right(width - cell.cell_length) for cell, width in zip(row, widths, strict=False)]
        yield Line(Content.styled(" │ ", "$muted").join(cells).stylize("bold" if number == 0 else ""))
        if number == 0:
            yield Line(Content.styled("─┼─".join("─" * width for width in widths), "$muted"))


def _inline(token: Token) -> Content:
    """Text of a paragraph, heading or table cell with its emphasis."""
    runs: list[tuple[str, str]] = []
    styles: list[str] = []
    targets: list[str] = []
    for child in token.children or []:
        name, _, edge = child.type.rpartition("_")
        if edge == "open":
            styles.append(_INLINE_STYLES.get(name, ""))
            targets.append(str(child.attrs.get("href", "")))
        elif edge == "close":
            styles.pop()
            if target := targets.pop():
                runs.append((f" ({target})", "$muted"))
        elif child.type == "code_inline":
            runs.append((child.content, " ".join(filter(None, [*styles, INLINE_CODE_STYLE]))))
        elif child.type == "image":
            runs.append((f"[image: {child.content or child.attrs.get('src', '')}]", "$muted"))
        else:
            text = {"softbreak": " ", "hardbreak": "\n"}.get(child.type, child.content)
            runs.append((text, " ".join(filter(None, styles))))
    return Content.assemble(*runs)
