"""Distributions of jobs: a violin, a box and a dot for each job, one row for each stack."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from adviser.plots.canvas import CHARACTER_PX, Canvas, Scale, fit_text, scale_of

_ROW_PX, _AXIS_PX, _LABEL_PX = 64, 40, 230
#: Half the height of a violin and of a box.
_VIOLIN_PX, _BOX_PX = 26, 7
#: Fewest values for a violin: the density of fewer is made up.
_FEWEST = 5
_DENSITY_POINTS = 60


@dataclass(frozen=True, slots=True)
class JobDot:
    """A job as a dot; a job that does not count is hollow."""

    value: float
    tooltip: str
    counts: bool = True


@dataclass(frozen=True, slots=True)
class DrawnDistribution:
    """The jobs of one stack.

    :param box: lower quartile, median and upper quartile of the jobs that count, if there are any
    """

    label: str
    jobs: tuple[JobDot, ...]
    box: tuple[float, float, float] | None


def distributions_plot(
    rows: Sequence[DrawnDistribution], title: str, unit: str, width: float = 760
) -> str:
    """Draw the distributions below each other on one scale, as SVG.

    :param rows: at least one, and at least one job in all
    """
    values = [job.value for row in rows for job in row.jobs]
    label_px = min(_LABEL_PX, max(len(it.label) for it in rows) * CHARACTER_PX + 14)
    scale = scale_of(values, label_px, width - 16)
    height = len(rows) * _ROW_PX + _AXIS_PX
    canvas = Canvas(width, height, title)
    bottom = height - _AXIS_PX
    for tick in scale.ticks(6):
        canvas.line(scale(tick), 0, scale(tick), bottom, "axis")
        canvas.label(scale(tick), bottom + 16, f"{tick:g}", "middle", "soft")
    canvas.label((label_px + width - 16) / 2, height - 6, unit, "middle", "soft")
    for number, row in enumerate(rows):
        middle = number * _ROW_PX + _ROW_PX / 2
        canvas.label(0, middle + 4, fit_text(row.label, label_px - 10))
        _row(canvas, row, scale, middle, unit)
    return canvas.svg()


def _row(canvas: Canvas, row: DrawnDistribution, scale: Scale, middle: float, unit: str) -> None:
    counted = sorted(job.value for job in row.jobs if job.counts)
    if len(counted) >= _FEWEST and counted[0] < counted[-1]:
        canvas.path(_violin(counted, scale, middle), "violin", closed=True)
    if row.box is not None:
        low, centre, high = (scale(it) for it in row.box)
        inside = _whiskers(counted, row.box)
        canvas.line(scale(inside[0]), middle, scale(inside[1]), middle, "stroke")
        names = ("lower quartile", "median", "upper quartile")
        texts = (f"{n} {v:.4g}" for n, v in zip(names, row.box, strict=True))
        tooltip = f"{', '.join(texts)} {unit}"
        canvas.box(low, middle - _BOX_PX, max(high - low, 1), 2 * _BOX_PX, "quartiles", tooltip)
        canvas.line(centre, middle - _BOX_PX - 3, centre, middle + _BOX_PX + 3, "stroke", 2.5)
    radius = max(1.5, min(3.5, 120 / max(len(row.jobs), 1)))
    for number, job in enumerate(row.jobs):
        # Dots of a row alternate in height by a fixed pattern, so that equal values stay visible.
        offset = (number * 7 % 11 - 5) * 1.8 + _BOX_PX + 10
        kind = "mark" if job.counts else "mark open"
        canvas.dot(scale(job.value), middle + offset, kind, job.tooltip, radius)


def _whiskers(ordered: Sequence[float], box: tuple[float, float, float]) -> tuple[float, float]:
    """The outermost values within 1.5 box widths of the box (Tukey 1977)."""
    low, _, high = box
    reach = 1.5 * (high - low)
    inside = [it for it in ordered if low - reach <= it <= high + reach]
    return (inside[0], inside[-1]) if inside else (low, high)


def _violin(ordered: Sequence[float], scale: Scale, middle: float) -> list[tuple[float, float]]:
    """The outline of a Gaussian density with Silverman's bandwidth, cut at the outer values."""
    n = len(ordered)
    mean = math.fsum(ordered) / n
    sd = math.sqrt(math.fsum((it - mean) ** 2 for it in ordered) / (n - 1))
    bandwidth = 1.06 * sd * n**-0.2
    low, high = ordered[0], ordered[-1]
    places = [low + (high - low) * i / _DENSITY_POINTS for i in range(_DENSITY_POINTS + 1)]
    density = [
        math.fsum(math.exp(-(((place - it) / bandwidth) ** 2) / 2) for it in ordered)
        for place in places
    ]
    highest = max(density)
    upper = [
        (scale(place), middle - _VIOLIN_PX * it / highest)
        for place, it in zip(places, density, strict=True)
    ]
    return [(scale(low), middle), *upper, (scale(high), middle)]
