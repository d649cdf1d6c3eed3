"""Jobs and samples as dots in the order of time, with bands and steps."""

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

    :param url: where its dot leads
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
