"""What an agent was given to read, part by part, marked by where each part came from and what became of it."""

from __future__ import annotations

import numpy as np
from textual.content import Content
from textual.widgets import Static

from relaylite.events import PromptPart
from relaylite.metrics import CellMap
from relaylite.terminal_text import fit_for_terminal, one_line
from relaylite.tui.conversation import TurnRecord
from relaylite.tui.text import figures

PART_LIMIT = 4000  # characters shown of one part


def origin_of(part: PromptPart) -> str:
    """Where a part's text came from, in words."""
    names = {"template": "chat template", "system": "instructions", "user": "your message", "glue": "between answers"}
    if part.kind == "answer":
        return f"from {part.source}"
    if part.kind == "file":
        return f"file {one_line(part.source)}"
    return names[part.kind]


def fate_of(cells: CellMap | None, start: int, n: int) -> str:
    """What became of positions `[start, start + n)`, in words; "" where it is not known."""
    if cells is None or n == 0 or start + n > cells.cells.shape[1]:
        return ""
    columns = cells.cells[:, start : start + n]
    share = [float(np.mean(columns == kind)) for kind in range(4)]
    if share[CellMap.PREFIX] == 1:
        return "taken over in place"
    if share[CellMap.NEW] == 1:
        return "computed"
    taken = share[CellMap.PREFIX] + share[CellMap.REUSED]
    return f"{figures.percent(taken)} of its cells taken over"


class PromptParts(Static):
    """A listing of the parts; template text is one quiet line each."""

    def __init__(self, record: TurnRecord, colors: dict[str, str]) -> None:
        super().__init__(listing(record, colors), classes="parts")


def listing(record: TurnRecord, colors: dict[str, str]) -> Content:
    """All parts of the record's prompt, one below the other."""
    lines: list[Content] = []
    position = 0
    for part in record.parts:
        n = len(part.tokens)
        lines.append(_entry(part, fate_of(record.cells, position, n), colors))
        position += n
    return Content("\n").join(lines) if lines else Content.styled("The prompt's parts are not known.", "$muted")


def _entry(part: PromptPart, fate: str, colors: dict[str, str]) -> Content:
    color = colors.get(part.source, "$muted") if part.kind == "answer" else "$muted"
    sign = "▌" if part.kind == "answer" else "│"
    facts = f"{figures.count(len(part.tokens))} tokens" + (f", {fate}" if fate else "")
    head = Content.assemble((f"{sign} ", color), (origin_of(part), f"bold {color}"), (f" · {facts}", "$muted"))
    if part.kind in ("template", "glue"):
        return head
    more = len(part.text) - PART_LIMIT
    text = part.text[:PART_LIMIT] + (f" … {figures.count(more)} more characters" if more > 0 else "")
    body = [Content.assemble((f"{sign} ", color), fit_for_terminal(line)) for line in text.strip().splitlines()]
    return Content("\n").join([head, *body])
