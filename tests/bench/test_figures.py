"""One figure in three forms: the same points in each."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relaylite.bench.figures import HEIGHT, WIDTH, Axis, Figure, Series, png, svg, text

SVG = "{http://www.w3.org/2000/svg}"
CURVE = Series("V & <K>", tuple((float(x), float((x - 5) ** 2)) for x in range(11)))
POINTS = Series("points", ((1.0, 20.0), (9.0, 20.0)), is_line=False)
FIGURE = Figure("A curve", "layer", "value", (CURVE, POINTS))
values = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=20)


def test_svg_is_well_formed_and_holds_all_points() -> None:
    root = ElementTree.fromstring(svg(FIGURE))
    assert len(root.findall(f"{SVG}circle")) == 11 + 2 + 2  # and a mark each in the legend
    assert len([line for line in root.findall(f"{SVG}line") if line.get("stroke-width") == "2"]) == 10
    assert {"A curve", "layer", "value", "V & <K>", "points"} <= {label.text for label in root.findall(f"{SVG}text")}


def test_all_marks_stand_on_the_canvas() -> None:
    for dot in ElementTree.fromstring(svg(FIGURE)).findall(f"{SVG}circle"):
        assert 0 <= float(dot.get("cx") or -1) <= WIDTH and 0 <= float(dot.get("cy") or -1) <= HEIGHT


def test_png_is_a_picture_with_ink() -> None:
    image = pytest.importorskip("PIL.Image")
    with image.open(io.BytesIO(png(FIGURE, scale=1))) as picture:
        assert picture.format == "PNG" and picture.size == (WIDTH, HEIGHT)
        assert len(picture.getcolors(1 << 20)) > 5


def test_text_shows_the_dip_below_its_rim() -> None:
    lines = text(FIGURE, width=40, height=10)
    rows = [line.split("|", 1)[1].ljust(40) for line in lines if "|" in line]
    assert len(rows) == 10 and rows[0][0] == "o" and rows[0].rstrip()[-1] == "o"
    lowest = [i for i, character in enumerate(rows[-1]) if character == "o"]
    assert lowest and lowest[0] >= 15 and lowest[-1] <= 25
    assert "o V & <K>   x points" in lines[-1]


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        Figure("x", "x", "y", (Series("empty", ()),))


@given(values)
def test_axes_cover_their_values(data: list[float]) -> None:
    axis = Axis.over(data, 0, 100, is_log=False)
    slack = 1e-6 * max(map(abs, data))
    assert axis.low <= min(data) + slack and axis.high >= max(data) - slack and list(axis.ticks) == sorted(set(axis.ticks))
    assert all(-1e-3 <= axis.place(value) <= 100 + 1e-3 for value in data)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20))
def test_logarithmic_axes_cover_their_values(data: list[float]) -> None:
    axis = Axis.over(data, 0, 100, is_log=True)
    assert all(-1e-3 <= axis.place(value) <= 100 + 1e-3 for value in data)
    assert axis.place(axis.ticks[0]) == 0 and axis.place(axis.ticks[-1]) == pytest.approx(100)
    assert Axis.over([0.0, 8.0], 0, 1, is_log=True).place(0.0) == 0
