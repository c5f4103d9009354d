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
    """One line before wrapping. `first` stands before it, `rest` before its continuations; `fill` styles the whole width.

    `[start, end)` are lines of the source; `source` is what copying the whole line gives, None for what it shows.
    A row of a table has `cells` instead of `content`, and the table's `columns`: their widths where there is room. The rule below
    the head of a table has columns only.
    """

    content: Content
    start: int
    end: int
    first: str = ""
    rest: str = ""
    fill: str = ""
    source: str | None = None
    cells: tuple[Content, ...] = ()
    columns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MarkdownBlock:
    """A top-level block: paragraph, heading, list, fence, … `[start, end)` are lines of the source that was parsed."""

    start: int
    end: int
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """What stands in a fence, and the language that the fence names."""

    code: str
    language: str


def blocks_of(source: str) -> list[MarkdownBlock]:
    """The top-level blocks of `source`, in order."""
    blocks: list[MarkdownBlock] = []
    group: list[Token] = []
    for token in PARSER.parse(source):
        group.append(token)
        if token.level == 0 and token.nesting <= 0:
            bounds = next((each.map for each in group if each.map), None) or [blocks[-1].end if blocks else 0] * 2
            blocks.append(MarkdownBlock(bounds[0], bounds[1], tuple(_lines(group, bounds[0]))))
            group = []
    return blocks


def code_blocks_of(source: str) -> list[CodeBlock]:
    """The fences of `source` and its indented code, in order."""
    tokens = [token for token in PARSER.parse(source) if token.type in ("fence", "code_block")]
    return [CodeBlock(token.content, _language_of(token) or "") for token in tokens]


def _lines(tokens: list[Token], at: int) -> Iterator[Line]:
    """Lines of one top-level block, which begins at line `at` of the source."""
    if tokens[0].type == "table_open":
        yield from _table(tokens, at)
        return
    markers: list[str] = []  # of the lists and quotes around; spaces once a marker was shown
    heading = ""
    for token in tokens:
        kind = token.type
        start, end = token.map or (at, at + 1)
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
            yield Line(Content.styled("─" * 24, "$muted"), start, end)
        elif kind in ("fence", "code_block"):
            yield from _code(token, "".join(_spent(markers)), start + (kind == "fence"))
        elif kind == "inline":
            content = _inline(token)
            yield from _paragraph(content.stylize(heading) if heading else content, markers, start, end)
            markers = _spent(markers)


def _spent(markers: list[str]) -> list[str]:
    return [marker if marker == "▎ " else " " * len(marker) for marker in markers]


def _paragraph(content: Content, markers: list[str], start: int, end: int) -> Iterator[Line]:
    first, rest = "".join(markers), "".join(_spent(markers))
    for part in content.split("\n", allow_blank=True):
        yield Line(part, start, end, first, rest)
        first = rest


def _language_of(token: Token) -> str | None:
    return token.info.split()[0] if token.info.strip() else None


def _code(token: Token, indent: str, at: int) -> Iterator[Line]:
    source = token.content.rstrip("\n")
    code = source.expandtabs(4)
    content = highlight(code, language=_language_of(token)) if 0 < len(code) <= HIGHLIGHT_LIMIT else Content(code)
    for number, (line, raw) in enumerate(zip(content.split("\n", allow_blank=True), source.split("\n"), strict=False)):
        yield Line(line, at + number, at + number + 1, f"{indent} ", f"{indent} ", CODE_STYLE, raw)


def _table(tokens: list[Token], at: int) -> Iterator[Line]:
    rows: list[tuple[int, list[Content]]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append((token.map[0] if token.map else at, []))
        elif token.type == "inline":
            rows[-1][1].append(_inline(token))
    n_columns = len(rows[0][1])
    columns = tuple(max(row[place].cell_length for _, row in rows if place < len(row)) for place in range(n_columns))
    for number, (start, row) in enumerate(rows):
        cells = tuple(cell.stylize("bold") if number == 0 else cell for cell in row[:n_columns])
        source = "| " + " | ".join(cell.plain for cell in cells) + " |"
        yield Line(Content(""), start, start + 1, source=source, cells=cells, columns=columns)
        if number == 0:
            yield Line(Content(""), start + 1, start + 2, source="|" + "---|" * n_columns, columns=columns)


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
