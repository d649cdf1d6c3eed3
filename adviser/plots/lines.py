"""Lines with bands over a numeric axis, such as the rate over the size of a matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from adviser.plots.canvas import CHARACTER_PX, Canvas, Scale, fit_text, scale_of

_LEFT_PX, _RIGHT_PX, _AXIS_PX, _LEGEND_PX = 76, 16, 42, 22
#: Lines differ in colour, dashes and this mark.
_MARKS = ("●", "■", "▲", "◆", "▼", "○")
#: Distance of the labels of an axis with one label for each value, px.
_LABEL_GAP_PX = 34


@dataclass(frozen=True, slots=True)
class LinePoint:
    """A value with its interval, which is ``None`` if it is unknown."""

    x: float
    y: float
    low: float | None
    high: float | None
    tooltip: str


@dataclass(frozen=True, slots=True)
class DrawnLine:
    """One line; ``joined`` is false for values that only share an axis, such as jobs over time."""

    label: str
    points: tuple[LinePoint, ...]
    joined: bool = True


@dataclass(frozen=True, slots=True)
class PlotAxis:
    """An axis of a plot.

    :param logarithmic: for positive values
    :param marked: values to label, instead of round ones
    """

    label: str
    logarithmic: bool = False
    marked: tuple[float, ...] = ()

    def place(self, value: float) -> float:
        """The value, or its logarithm."""
        return math.log10(value) if self.logarithmic else value


def lines_plot(
    lines: Sequence[DrawnLine],
    title: str,
    across: PlotAxis,
    up: PlotAxis,
    *,
    zero: bool = False,
    width: float = 760,
    height: float = 320,
) -> str:
    """Draw lines with their bands and a legend, as SVG.

    :param lines: at least one point in all
    :param zero: draw a line at zero, and let the scale contain it
    """
    points = [point for line in lines for point in line.points]
    legend_rows = _legend_rows(lines, width)
    top = len(legend_rows) * _LEGEND_PX + 20
    x = scale_of([across.place(it.x) for it in points], _LEFT_PX, width - _RIGHT_PX)
    ys = [y for it in points for y in (it.y, it.low, it.high) if y is not None]
    ys += [0.0] * zero
    y = scale_of(
        [up.place(it) for it in ys if not up.logarithmic or it > 0], height - _AXIS_PX, top
    )
    canvas = Canvas(width, height, title)
    _axes(canvas, x, y, across, up, top)
    if zero:
        canvas.line(_LEFT_PX, y(0), width - _RIGHT_PX, y(0), "zero", 1.5)
    for number, line in enumerate(lines):
        _line(canvas, line, number, x, y, across, up)
    for row, labels in enumerate(legend_rows):
        for place, number, text in labels:
            kind = f"series{number % len(_MARKS)}"
            canvas.label(place, row * _LEGEND_PX + 14, f"{_MARKS[number % len(_MARKS)]} {text}",
                         kind=kind)  # fmt: skip
    return canvas.svg()


def _legend_rows(lines: Sequence[DrawnLine], width: float) -> list[list[tuple[float, int, str]]]:
    """Place, number and text of each label, by row."""
    rows: list[list[tuple[float, int, str]]] = [[]]
    place = float(_LEFT_PX)
    for number, line in enumerate(lines):
        text = fit_text(line.label, width - _LEFT_PX - 40)
        length = (len(text) + 4) * CHARACTER_PX
        if rows[-1] and place + length > width:
            rows.append([])
            place = _LEFT_PX
        rows[-1].append((place, number, text))
        place += length
    return rows


def _axes(canvas: Canvas, x: Scale, y: Scale, across: PlotAxis, up: PlotAxis, top: float) -> None:
    bottom, right = canvas.height - _AXIS_PX, canvas.width - _RIGHT_PX
    for value, text in _ticks(y, up):
        canvas.line(_LEFT_PX, y(value), right, y(value), "axis")
        canvas.label(_LEFT_PX - 6, y(value) + 4, text, "end", "soft")
    last = -math.inf
    for value, text in _ticks(x, across):
        canvas.line(x(value), top, x(value), bottom, "axis")
        if x(value) - last >= _LABEL_GAP_PX:
            canvas.label(x(value), bottom + 16, text, "middle", "soft")
            last = x(value)
    canvas.label((_LEFT_PX + right) / 2, canvas.height - 6, across.label, "middle", "soft")
    canvas.label(0, top - 7, up.label, "start", "soft")


def _ticks(scale: Scale, axis: PlotAxis) -> list[tuple[float, str]]:
    """Place on the scale and text of each tick."""
    if axis.marked:
        return [(axis.place(it), f"{it:g}") for it in axis.marked]
    if not axis.logarithmic:
        return [(it, f"{it:g}") for it in scale.ticks()]
    low, high = math.floor(scale.low), math.ceil(scale.high)
    steps = (1, 2, 5) if high - low <= 3 else (1,)
    values = [step * 10.0**power for power in range(low, high + 1) for step in steps]
    inside = [it for it in values if scale.low <= math.log10(it) <= scale.high]
    if len(inside) < 2:  # less than a step
        return [(it, f"{10**it:.3g}") for it in scale.ticks(4)]
    return [(math.log10(it), f"{it:g}") for it in inside]


def _line(
    canvas: Canvas,
    line: DrawnLine,
    number: int,
    x: Scale,
    y: Scale,
    across: PlotAxis,
    up: PlotAxis,
) -> None:
    kind = f"series{number % len(_MARKS)}"
    shown = [it for it in line.points if not up.logarithmic or it.y > 0]
    band = [
        (x(across.place(it.x)), y(up.place(it.low)), y(up.place(it.high)))
        for it in shown
        if it.low is not None and it.high is not None and (not up.logarithmic or it.low > 0)
    ]
    if line.joined and len(band) > 1:
        upper = [(px, high) for px, _, high in band]
        lower = [(px, low) for px, low, _ in reversed(band)]
        canvas.path([*upper, *lower], f"{kind} area", closed=True)
    elif band:
        for px, low, high in band:
            canvas.line(px, low, px, high, f"{kind} stroke", 2)
    places = [(x(across.place(it.x)), y(up.place(it.y))) for it in shown]
    if line.joined and len(places) > 1:
        canvas.path(places, f"{kind} joined")
    radius = max(1.8, min(4.0, 300 / max(len(shown), 1)))
    for (px, py), point in zip(places, shown, strict=True):
        canvas.dot(px, py, kind, point.tooltip, radius)
