"""Bars: values of named rows, and chances of a step at each place of a series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adviser.plots.canvas import CHARACTER_PX, ROW_PX, Canvas, Scale, fit_text

_WIDTH_PX, _LABEL_PX, _VALUE_PX = 680, 280, 80
_LEFT_PX, _TOP_PX, _BOTTOM_PX = 50, 20, 24
#: Width of a bar at most, px.
_BAR_PX = 28


def bars_plot(rows: Sequence[tuple[str, float]], title: str) -> str:
    """Draw a bar from zero for each row, with its value, as SVG.

    :param rows: at least one label with its value
    """
    canvas = Canvas(_WIDTH_PX, len(rows) * ROW_PX, title)
    label_px = min(_LABEL_PX, max(len(label) for label, _ in rows) * CHARACTER_PX + 20)
    values = [value for _, value in rows]
    low, high = min(0.0, *values), max(0.0, *values)
    across = Scale(low, high if high > low else low + 1, label_px, _WIDTH_PX - _VALUE_PX)
    for row, (label, value) in enumerate(rows):
        top = row * ROW_PX
        canvas.label(0, top + ROW_PX / 2 + 4, fit_text(label, label_px - 8))
        left, right = sorted((across(0.0), across(value)))
        canvas.box(left, top + 5, max(right - left, 1), ROW_PX - 10, "mark", f"{label}: {value:g}")
        canvas.label(right + 6, top + ROW_PX / 2 + 4, f"{value:.4g}", "start", "soft")
    return canvas.svg()


@dataclass(frozen=True, slots=True)
class DrawnChance:
    """The chance of one possibility, from 0 to 1.

    :param tooltip: what is expected if it is true
    """

    label: str
    chance: float
    tooltip: str = ""


def chances_plot(
    chances: Sequence[DrawnChance], title: str, width: float = 960, height: float = 220
) -> str:
    """Draw a bar for each possibility in order, with the most probable one named, as SVG.

    :param chances: at least one
    """
    canvas = Canvas(width, height, title)
    bottom = height - _BOTTOM_PX
    up = Scale(0.0, 1.0, bottom, _TOP_PX)
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        canvas.line(_LEFT_PX, up(tick), width, up(tick), "axis")
        canvas.label(_LEFT_PX - 6, up(tick) + 4, f"{100 * tick:.0f} %", "end", "soft")
    slot = (width - _LEFT_PX) / len(chances)
    bar = min(_BAR_PX, 0.8 * slot)
    for place, drawn in enumerate(chances):
        left = _LEFT_PX + (place + 0.5) * slot - bar / 2
        tooltip = f"{drawn.label}: {100 * drawn.chance:.1f} %" + (
            f", {drawn.tooltip}" if drawn.tooltip else ""
        )
        # At least a hair, so that each possibility can be seen and pointed at.
        top = min(up(drawn.chance), bottom - 1)
        canvas.box(left, top, bar, bottom - top, "mark", tooltip)
    best = max(range(len(chances)), key=lambda place: chances[place].chance)
    for place in sorted({0, best, len(chances) - 1}):
        _name(canvas, chances[place].label, _LEFT_PX + (place + 0.5) * slot, place == best)
    return canvas.svg()


def _name(canvas: Canvas, label: str, middle: float, best: bool) -> None:
    """The name of a bar: of the best one above all bars, of the ends below."""
    text = fit_text(label, 0.3 * canvas.width)
    half = 0.6 * len(text) * CHARACTER_PX  # a little more than the mean, so that nothing is cut
    x = min(max(middle, half), canvas.width - half)
    canvas.label(x, 12 if best else canvas.height - 6, text, "middle", "" if best else "soft")
