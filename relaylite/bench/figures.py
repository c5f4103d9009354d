"""`Figure`: a small line or scatter chart as plain values, drawn as SVG text, as PNG bytes, or in characters for a terminal."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from relaylite.errors import UsageError

WIDTH, HEIGHT = 720, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 170, 46, 56  # margins; the legend stands at the right
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")
INK, GRID = "#333333", "#dddddd"
MARKS = "ox+*#@%&"


@dataclass(frozen=True, slots=True)
class Series:
    """Points `(x, y)`, joined by a line or not."""

    name: str
    points: tuple[tuple[float, float], ...]
    is_line: bool = True


@dataclass(frozen=True, slots=True)
class Figure:
    """Series over one pair of axes. Raises ValueError if there is no point to draw."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    is_x_log: bool = False
    is_y_log: bool = False

    def __post_init__(self) -> None:
        if not any(series.points for series in self.series):
            raise ValueError(f"nothing to draw: {self.title}")


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps values to places `[start, end]` of a picture."""

    ticks: tuple[float, ...]
    low: float
    high: float
    start: float
    end: float
    is_log: bool

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float, *, is_log: bool) -> Axis:
        """An axis from tick to tick around `values`; on a logarithmic one values that are not positive count as the smallest that is."""
        if is_log:
            positive = [value for value in values if value > 0] or [1.0]
            ticks = _log_ticks(min(positive), max(positive))
        else:
            ticks = _ticks(min(values), max(values))
        return cls(tuple(ticks), ticks[0], ticks[-1], start, end, is_log)

    def place(self, value: float) -> float:
        low, high = (math.log(self.low), math.log(self.high)) if self.is_log else (self.low, self.high)
        at = math.log(max(value, self.low)) if self.is_log else value
        return self.start + (at - low) / (high - low) * (self.end - self.start)


def _ticks(low: float, high: float) -> list[float]:
    """About six round numbers around `[low, high]`."""
    extent = max(high - low, 1e-6 * max(abs(low), abs(high))) or 1.0
    raw = extent / 5
    unit = 10 ** math.floor(math.log10(raw))
    step = next(factor * unit for factor in (1, 2, 2.5, 5, 10) if factor * unit >= raw * 0.999)
    first = math.floor(low / step + 1e-9)
    last = max(math.ceil(high / step - 1e-9), first + 1)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten around `[low, high]`, or of two where that gives too few."""
    base = 10 if high / low > 100 else 2
    first, last = math.floor(math.log(low, base) + 1e-9), math.ceil(math.log(high, base) - 1e-9)
    return [float(base) ** i for i in range(first, max(last, first + 1) + 1)]


@dataclass(frozen=True, slots=True)
class Stroke:
    """A straight line from (x1, y1) to (x2, y2)."""

    x1: float
    y1: float
    x2: float
    y2: float
    color: str
    width: float = 1.0


@dataclass(frozen=True, slots=True)
class Dot:
    """A filled circle around (x, y)."""

    x: float
    y: float
    color: str


@dataclass(frozen=True, slots=True)
class Label:
    """`anchor`: which point of the text stands at (x, y): "start", "middle" or "end" of its baseline; `is_upright`: read from below."""

    x: float
    y: float
    text: str
    size: int = 12
    anchor: str = "start"
    is_upright: bool = False


Mark = Stroke | Dot | Label


def marks_of(figure: Figure) -> list[Mark]:
    """The figure as strokes, dots and labels on a canvas of WIDTH × HEIGHT, y downwards."""
    points = [point for series in figure.series for point in series.points]
    x = Axis.over([p[0] for p in points], LEFT, WIDTH - RIGHT, is_log=figure.is_x_log)
    y = Axis.over([p[1] for p in points], HEIGHT - BOTTOM, TOP, is_log=figure.is_y_log)
    marks: list[Mark] = [Label(LEFT, 26, figure.title, 15)]
    for tick in x.ticks:
        marks.append(Stroke(x.place(tick), TOP, x.place(tick), HEIGHT - BOTTOM, GRID))
        marks.append(Label(x.place(tick), HEIGHT - BOTTOM + 18, f"{tick:g}", 12, "middle"))
    for tick in y.ticks:
        marks.append(Stroke(LEFT, y.place(tick), WIDTH - RIGHT, y.place(tick), GRID))
        marks.append(Label(LEFT - 8, y.place(tick) + 4, f"{tick:g}", 12, "end"))
    marks.append(Label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, figure.x_label, 13, "middle"))
    marks.append(Label(20, (TOP + HEIGHT - BOTTOM) / 2, figure.y_label, 13, "middle", is_upright=True))
    for i, series in enumerate(figure.series):
        marks += _series_marks(series, COLORS[i % len(COLORS)], x, y)
        marks += [
            Dot(WIDTH - RIGHT + 16, TOP + 10 + 20 * i, COLORS[i % len(COLORS)]),
            Label(WIDTH - RIGHT + 26, TOP + 14 + 20 * i, series.name),
        ]
    return marks


def _series_marks(series: Series, color: str, x: Axis, y: Axis) -> list[Mark]:
    at = [(x.place(px), y.place(py)) for px, py in series.points]
    lines = [Stroke(*start, *end, color, 2.0) for start, end in pairwise(at)] if series.is_line else []
    return [*lines, *(Dot(px, py, color) for px, py in at)]


def svg(figure: Figure) -> str:
    """The figure as an SVG document."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" fill="{INK}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        *map(_svg_mark, marks_of(figure)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _svg_mark(mark: Mark) -> str:
    if isinstance(mark, Stroke):
        ends = f'x1="{mark.x1:.1f}" y1="{mark.y1:.1f}" x2="{mark.x2:.1f}" y2="{mark.y2:.1f}"'
        return f'<line {ends} stroke="{mark.color}" stroke-width="{mark.width:g}"/>'
    if isinstance(mark, Dot):
        return f'<circle cx="{mark.x:.1f}" cy="{mark.y:.1f}" r="4" fill="{mark.color}"/>'
    turned = f' transform="rotate(-90 {mark.x:.1f} {mark.y:.1f})"' if mark.is_upright else ""
    text = escape(mark.text)
    return f'<text x="{mark.x:.1f}" y="{mark.y:.1f}" font-size="{mark.size}" text-anchor="{mark.anchor}"{turned}>{text}</text>'


def png(figure: Figure, scale: int = 2) -> bytes:
    """The figure as a PNG file. Raises UsageError if Pillow is not installed."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise UsageError("PNG pictures need Pillow: pip install 'relaylite[plot]', or write SVG") from error
    image = Image.new("RGB", (WIDTH * scale, HEIGHT * scale), "#ffffff")
    draw = ImageDraw.Draw(image)
    anchors = {"start": "ls", "middle": "ms", "end": "rs"}
    for mark in marks_of(figure):
        if isinstance(mark, Stroke):
            ends = [scale * value for value in (mark.x1, mark.y1, mark.x2, mark.y2)]
            draw.line(ends, fill=mark.color, width=round(mark.width * scale))
        elif isinstance(mark, Dot):
            draw.ellipse([scale * value for value in (mark.x - 4, mark.y - 4, mark.x + 4, mark.y + 4)], fill=mark.color)
        elif mark.is_upright:
            font = ImageFont.load_default(mark.size * scale)
            width, height = round(font.getlength(mark.text)), mark.size * scale * 2
            text = Image.new("RGB", (width, height), "#ffffff")
            ImageDraw.Draw(text).text((0, height * 0.7), mark.text, fill=INK, font=font, anchor="ls")
            turned = text.rotate(90, expand=True)
            image.paste(turned, (round(scale * mark.x - height * 0.7), round(scale * mark.y - width / 2)))
        else:
            font = ImageFont.load_default(mark.size * scale)
            draw.text((scale * mark.x, scale * mark.y), mark.text, fill=INK, font=font, anchor=anchors[mark.anchor])
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def text(figure: Figure, width: int = 64, height: int = 14) -> list[str]:
    """The figure in plain characters: a mark for each series, its legend below."""
    points = [point for series in figure.series for point in series.points]
    x = Axis.over([p[0] for p in points], 0, width - 1, is_log=figure.is_x_log)
    y = Axis.over([p[1] for p in points], height - 1, 0, is_log=figure.is_y_log)
    canvas = [[" "] * width for _ in range(height)]
    for series, mark in zip(figure.series, MARKS, strict=False):
        for px, py in series.points:
            canvas[round(y.place(py))][round(x.place(px))] = mark
    names = {round(y.place(tick)): f"{tick:g}" for tick in y.ticks}
    margin = max(map(len, names.values()))
    lines = [f"{figure.title}", *(f"{names.get(i, ''):>{margin}} |{''.join(row).rstrip()}" for i, row in enumerate(canvas))]
    axis = [" "] * (width + 8)
    for tick in x.ticks:
        at, name = round(x.place(tick)), f"{tick:g}"
        axis[at : at + len(name)] = name
    lines += [" " * margin + " +" + "-" * width, " " * (margin + 2) + "".join(axis).rstrip() + f"  {figure.x_label}"]
    legend = "   ".join(f"{mark} {series.name}" for series, mark in zip(figure.series, MARKS, strict=False))
    return [*lines, " " * (margin + 2) + legend]
