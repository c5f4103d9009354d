"""What a notebook shows of a result and of a cell map: well-formed, true to the cells, and no text in it becomes markup."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from relaylite.chain.result import ChainResult
from relaylite.events import Turn
from relaylite.metrics import CellMap, TurnMetrics

COLORS = {"#9aa0a6": CellMap.PREFIX, "#4c8dd6": CellMap.REUSED, "#e8912d": CellMap.RECOMPUTED, "#4caf50": CellMap.NEW}
HOSTILE = "<script>alert(1)</script>\"'&amp;\x1b]0;title\x07 <img src=x onerror=y>"


def map_of(cells: np.ndarray) -> CellMap:
    return CellMap(cells.astype(np.uint8), np.full(cells.shape[1], np.nan, np.float32))


def drawn(cells: CellMap) -> np.ndarray:
    """The picture as codes, layer 0 first."""
    svg = ElementTree.fromstring(cells._repr_html_()).find("svg")
    assert svg is not None
    width, height = (int(each) for each in svg.attrib["viewBox"].split()[2:])
    picture = np.full((height, width), -1)
    for rect in svg:
        x, y, n = (int(rect.attrib[name]) for name in ("x", "y", "width"))
        picture[height - 1 - y, x : x + n] = COLORS[rect.attrib["fill"]]
    return picture


def test_a_small_map_is_drawn_cell_by_cell() -> None:
    cells = np.random.default_rng(0).integers(0, 4, (5, 40))
    assert (drawn(map_of(cells)) == cells).all()
    assert "5 layers, 40 tokens" in map_of(cells)._repr_html_()


def test_a_long_prompt_is_drawn_in_256_columns() -> None:
    cells = np.zeros((3, 100_000))
    cells[1, 50_000:] = CellMap.NEW
    picture = drawn(map_of(cells))
    assert (
        picture.shape == (3, 256) and (picture[0] == 0).all() and (picture[1, 128:] == CellMap.NEW).all() and (picture[1, :128] == 0).all()
    )
    assert "new 17%" in map_of(cells)._repr_html_() and len(map_of(cells)._repr_html_()) < 2000


def test_a_map_without_tokens_has_no_picture() -> None:
    assert map_of(np.empty((4, 0)))._repr_html_() == "<div>4 layers, no tokens</div>"


@pytest.mark.parametrize("field", ["model", "policy", "agent", "text", "notice"])
def test_no_text_becomes_markup(field: str) -> None:
    said = {**dict.fromkeys(("model", "policy", "agent", "text", "notice"), "plain"), field: HOSTILE}
    turn = Turn(said["agent"], 0, 0, said["text"], (), "stop", TurnMetrics(span_tokens=7), cells=map_of(np.ones((2, 3))))
    page = ChainResult(said["model"], said["policy"], (turn, turn), 1500.0, 1.0, (said["notice"],))._repr_html_()
    tree = ElementTree.fromstring(page)  # well-formed: every < and & of a text is escaped, and no control character is left
    assert {element.tag for element in tree.iter()} == {"div", "b", "details", "summary", "pre", "span", "svg", "rect"}
    assert "<script>alert(1)</script>" in "".join(tree.itertext()) and "\x1b" not in page
    assert ["open" in element.attrib for element in tree.iter("details")] == [False, True]
    assert "7 relayed" in page and "1.5 s" in page


def test_a_result_without_answers_is_shown_too() -> None:
    assert "policy full" in ChainResult("m", "full", (), 0.0, 0.0)._repr_html_()
