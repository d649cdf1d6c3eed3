"""Samples in the order in which they were taken."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from adviser.plots.canvas import Canvas, Scale, scale_of

_LEFT_PX, _BOTTOM_PX = 64, 26


def samples_plot(
    values: Sequence[float], title: str, unit: str, width: float = 680, height: float = 200
) -> str:
    """Draw a dot for each sample and a line at their median, as SVG.

    :param values: at least one, in order
    """
    canvas = Canvas(width, height, title)
    across = Scale(-0.5, len(values) - 0.5, _LEFT_PX, width - 8)
    up = scale_of(values, height - _BOTTOM_PX, 8)
    for tick in up.ticks(4):
        canvas.line(_LEFT_PX, up(tick), width - 8, up(tick), "axis")
        canvas.label(_LEFT_PX - 6, up(tick) + 4, f"{tick:.3g}", "end", "soft")
    middle = up(median(values))
    canvas.line(_LEFT_PX, middle, width - 8, middle, "line", 1.5)
    radius = max(1.5, min(4.0, 300 / len(values)))
    for place, value in enumerate(values):
        canvas.dot(across(place), up(value), "mark", f"{place + 1}: {value:.6g} {unit}", radius)
    canvas.label(_LEFT_PX, height - 6, f"{unit}, 1 to {len(values)} in order", "start", "soft")
    return canvas.svg()
