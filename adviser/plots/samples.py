"""Samples in the order in which they were taken."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import median

from adviser.plots.canvas import Canvas, Scale, scale_of

_LEFT_PX, _BOTTOM_PX = 64, 26


def samples_plot(
    values: Sequence[float],
    title: str,
    unit: str,
    left_out: Collection[int] = (),
    width: float = 680,
    height: float = 200,
) -> str:
    """Draw a dot for each sample and a line at the median of those that count, as SVG.

    :param values: at least one, in order
    :param left_out: places of samples that do not count; their dots are hollow
    """
    canvas = Canvas(width, height, title)
    across = Scale(-0.5, len(values) - 0.5, _LEFT_PX, width - 8)
    up = scale_of(values, height - _BOTTOM_PX, 8)
    for tick in up.ticks(4):
        canvas.line(_LEFT_PX, up(tick), width - 8, up(tick), "axis")
        canvas.label(_LEFT_PX - 6, up(tick) + 4, f"{tick:.3g}", "end", "soft")
    counted = [it for place, it in enumerate(values) if place not in left_out]
    if counted:
        middle = up(median(counted))
        canvas.line(_LEFT_PX, middle, width - 8, middle, "line", 1.5)
    radius = max(1.5, min(4.0, 300 / len(values)))
    for place, value in enumerate(values):
        kind = "mark open" if place in left_out else "mark"
        canvas.dot(across(place), up(value), kind, f"{place + 1}: {value:.6g} {unit}", radius)
    canvas.label(_LEFT_PX, height - 6, f"{unit}, 1 to {len(values)} in order", "start", "soft")
    return canvas.svg()
