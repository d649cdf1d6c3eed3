"""Jobs and samples as dots: in the order of time with bands and steps, or by stack with a box."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import median

from adviser.plots.canvas import CHARACTER_PX, Canvas, Scale, fit_text, scale_of

_LEFT_PX, _TOP_PX, _BOTTOM_PX = 56, 20, 38
_SAMPLES_LEFT_PX, _SAMPLES_BOTTOM_PX = 64, 26


@dataclass(frozen=True, slots=True)
class DrawnJob:
    """A job to be drawn.

    :param url: where its dot leads; distributions have no links
    :param counts: whether comparisons use it; other jobs have a hollow dot
    """

    rate: float
    url: str
    tooltip: str
    counts: bool = True


@dataclass(frozen=True, slots=True)
class DrawnRun:
    """An inspection to be drawn.

    :param day: day of its first job
    :param low: lower end of its band; ``None`` for no band
    :param step: a step begins here; its tooltip
    """

    label: str
    day: str
    jobs: Sequence[DrawnJob]
    middle: float | None
    low: float | None
    high: float | None
    step: str | None = None


def history_plot(
    runs: Sequence[DrawnRun], title: str, unit: str, width: float = 960, height: float = 300
) -> str:
    """Draw a dot for each job, a band for each inspection and a line at each step, as SVG.

    :param runs: oldest first, with at least one job in all
    """
    canvas = Canvas(width, height, title)
    number = sum(len(it.jobs) for it in runs)
    across = Scale(-0.5, number - 0.5, _LEFT_PX, width - 8)
    up = scale_of([job.rate for run in runs for job in run.jobs], height - _BOTTOM_PX, _TOP_PX)
    for tick in up.ticks():
        canvas.line(_LEFT_PX, up(tick), width - 8, up(tick), "axis")
        canvas.label(_LEFT_PX - 6, up(tick) + 4, f"{tick:.4g}", "end", "soft")
    canvas.label(0, 12, unit, "start", "soft")
    radius = max(1.5, min(4.0, 500 / number))
    begin, day, day_end = 0, "", 0.0
    for run in runs:
        left, right = across(begin - 0.5), across(begin + len(run.jobs) - 0.5)
        if run.step:
            canvas.line(left, _TOP_PX, left, height - _BOTTOM_PX, "step", 2, run.step)
        if run.low is not None and run.high is not None:
            tooltip = f"{run.label}: quartiles {run.low:.4g} to {run.high:.4g} {unit}"
            top = up(run.high)
            canvas.box(left, top, right - left, max(up(run.low) - top, 1), "band", tooltip)
        if run.middle is not None:
            canvas.line(left, up(run.middle), right, up(run.middle), "line", 1.5)
        for place, job in enumerate(run.jobs):
            kind = "mark" if job.counts else "mark open"
            part = canvas.link(job.url, job.tooltip)
            part.dot(across(begin + place), up(job.rate), kind, job.tooltip, radius)
        if right - left > 5 * CHARACTER_PX:
            text = fit_text(run.label, right - left - 4)
            canvas.label((left + right) / 2, height - _BOTTOM_PX + 16, text, "middle")
        if left >= day_end and run.day != day:
            day = run.day
            canvas.label(left, height - 6, day, "start", "soft")
            day_end = left + (len(run.day) + 2) * CHARACTER_PX
        begin += len(run.jobs)
    return canvas.svg()


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
    across = Scale(-0.5, len(values) - 0.5, _SAMPLES_LEFT_PX, width - 8)
    up = scale_of(values, height - _SAMPLES_BOTTOM_PX, 8)
    for tick in up.ticks(4):
        canvas.line(_SAMPLES_LEFT_PX, up(tick), width - 8, up(tick), "axis")
        canvas.label(_SAMPLES_LEFT_PX - 6, up(tick) + 4, f"{tick:.3g}", "end", "soft")
    counted = [it for place, it in enumerate(values) if place not in left_out]
    if counted:
        middle = up(median(counted))
        canvas.line(_SAMPLES_LEFT_PX, middle, width - 8, middle, "line", 1.5)
    radius = max(1.5, min(4.0, 300 / len(values)))
    for place, value in enumerate(values):
        kind = "mark open" if place in left_out else "mark"
        canvas.dot(across(place), up(value), kind, f"{place + 1}: {value:.6g} {unit}", radius)
    canvas.label(
        _SAMPLES_LEFT_PX, height - 6, f"{unit}, 1 to {len(values)} in order", "start", "soft"
    )
    return canvas.svg()


_ROW_PX, _AXIS_PX, _LABEL_PX = 64, 40, 230
#: Half the height of a box.
_BOX_PX = 7


@dataclass(frozen=True, slots=True)
class DrawnDistribution:
    """The jobs of one stack.

    :param box: lower quartile, median and upper quartile of the jobs that count, if there are any
    """

    label: str
    jobs: Sequence[DrawnJob]
    box: tuple[float, float, float] | None


def distributions_plot(
    rows: Sequence[DrawnDistribution], title: str, unit: str, width: float = 760
) -> str:
    """Draw the distributions below each other on one scale, as SVG.

    :param rows: at least one, and at least one job in all
    """
    values = [job.rate for row in rows for job in row.jobs]
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
    counted = sorted(job.rate for job in row.jobs if job.counts)
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
        canvas.dot(scale(job.rate), middle + offset, kind, job.tooltip, radius)


def _whiskers(ordered: Sequence[float], box: tuple[float, float, float]) -> tuple[float, float]:
    """The outermost values within 1.5 box widths of the box (Tukey 1977)."""
    low, _, high = box
    reach = 1.5 * (high - low)
    inside = [it for it in ordered if low - reach <= it <= high + reach]
    return (inside[0], inside[-1]) if inside else (low, high)
