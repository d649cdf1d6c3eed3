"""Plots as SVG, made without scripts: they work in pages, in reports and on paper.

Colours are classes of the style sheet of the page; every mark has its value as a tooltip, and
every plot has a title for screen readers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import median
from textwrap import wrap
from xml.etree.ElementTree import Element, SubElement, tostring

from model.text import printable

#: Mean width of a character of the labels, px.
CHARACTER_PX = 6.6


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to pixels.

    :param low: smallest value
    :param high: largest value; equal ends are widened
    :param start: pixel of ``low``
    :param end: pixel of ``high``
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        span = self.high - self.low
        return round(self.start + (value - self.low) / span * (self.end - self.start), 2)

    def ticks(self, number: int = 5) -> list[float]:
        """About ``number`` round values within the scale.

        >>> Scale(0, 10, 0, 100).ticks()
        [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
        """
        step = _round_step((self.high - self.low) / number)
        first = math.ceil(self.low / step - 1e-9)
        values = (place * step for place in count(first))
        ticks: list[float] = []
        for value in values:
            if value > self.high + step * 1e-9:
                return ticks
            ticks.append(float(f"{value:.10g}"))
        return ticks


def scale_of(values: Sequence[float], start: float, end: float, margin: float = 0.05) -> Scale:
    """A scale that contains all values, with a margin on both sides."""
    low, high = min(values), max(values)
    if high == low:
        half = abs(low) * 0.05 or 1.0
        return Scale(low - half, high + half, start, end)
    extra = (high - low) * margin
    return Scale(low - extra, high + extra, start, end)


class Canvas:
    """An SVG element to which shapes are added; ``kind`` names its classes of the style sheet."""

    def __init__(self, width: float, height: float, title: str, kind: str = "plot") -> None:
        self.width, self.height = width, height
        self._root = Element(
            "svg",
            {
                "class": kind,
                "viewBox": f"0 0 {_px(width)} {_px(height)}",
                "width": _px(width),
                "height": _px(height),
                "role": "img",
                "aria-label": printable(title),
            },
        )

    def line(
        self, x1: float, y1: float, x2: float, y2: float, kind: str, width: float = 1,
        tooltip: str = "",
    ) -> None:  # fmt: skip
        """A straight line; ``kind`` is a class of the style sheet."""
        ends = {"x1": _px(x1), "y1": _px(y1), "x2": _px(x2), "y2": _px(y2)}
        at = {**ends, "class": kind, "stroke-width": _px(width)}
        self._explained(SubElement(self._root, "line", at), tooltip)

    def dot(self, x: float, y: float, kind: str, tooltip: str = "", radius: float = 4) -> None:
        """A disc with a tooltip."""
        at = {"cx": _px(x), "cy": _px(y), "r": _px(radius), "class": kind}
        self._explained(SubElement(self._root, "circle", at), tooltip)

    def box(
        self, x: float, y: float, width: float, height: float, kind: str, tooltip: str = ""
    ) -> None:
        """A rectangle with a tooltip."""
        at = {"x": _px(x), "y": _px(y), "width": _px(width), "height": _px(height), "class": kind}
        self._explained(SubElement(self._root, "rect", at), tooltip)

    def label(self, x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> None:
        """A text; ``anchor`` is ``start``, ``middle`` or ``end``."""
        at = {"x": _px(x), "y": _px(y), "text-anchor": anchor}
        SubElement(self._root, "text", {**at, "class": kind} if kind else at).text = printable(text)

    def link(self, url: str, name: str) -> Canvas:
        """A part of this canvas whose shapes lead to ``url``.

        The tab key skips it, because a plot has many: a page lists the same links beside the plot.

        :param name: where it leads, for screen readers
        """
        self._root.set("role", "group")  # an image has no links
        part = Canvas.__new__(Canvas)
        part.width, part.height = self.width, self.height
        at = {"href": url, "aria-label": name, "tabindex": "-1"}
        part._root = SubElement(self._root, "a", at)
        return part

    def svg(self) -> str:
        """The whole drawing."""
        return tostring(self._root, encoding="unicode")

    @staticmethod
    def _explained(shape: Element, tooltip: str) -> None:
        if tooltip:
            SubElement(shape, "title").text = printable(tooltip)


def fit_text(text: str, pixels: float) -> str:
    """The text, shortened in its middle to about ``pixels``.

    >>> fit_text("numpy 2.0.2 and 12 other packages", 100)
    'numpy 2…ackages'
    """
    most = max(3, int(pixels / CHARACTER_PX))
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def _round_step(step: float) -> float:
    """The next of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(it * power for it in (1, 2, 5, 10) if it * power >= step * (1 - 1e-9))


def _px(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


#: The style sheet repeats these widths: on a phone, it moves the labels above the intervals, on a
#: ground that hides lines and band, and hides the column of labels.
_LABEL_PX, _INTERVALS_PX = 250, 430
#: Height of a row with space for the label above it, place of its mark, and height of each further
#: line of its label.
_ROW_PX, _MARK_PX, _LINE_PX = 32, 22, 16
_AXIS_PX, _MARGIN_PX = 34, 24


@dataclass(frozen=True, slots=True)
class DrawnEffect:
    """A difference to be drawn, %.

    :param low: lower end of its interval, or ``None``
    :param high: upper end, or ``None``
    :param verdict: class of the mark
    :param delta: differences up to this count as equivalent; drawn as a band
    """

    label: str
    value: float
    low: float | None
    high: float | None
    verdict: str
    delta: float | None = None


def effects_plot(effects: Sequence[DrawnEffect], title: str) -> str:
    """Draw a dot and its interval for each effect, beside a line at zero, as SVG.

    :param effects: at least one
    """
    ends = [it for one in effects for it in (one.low, one.high, one.value, 0.0) if it is not None]
    width = _LABEL_PX + _INTERVALS_PX
    scale = scale_of(ends, _LABEL_PX + _MARGIN_PX, width - _MARGIN_PX)
    most = int((_LABEL_PX - 8) / CHARACTER_PX)
    labels = [wrap(it.label, most, max_lines=2, placeholder=" …") or [""] for it in effects]
    bottom = sum(_ROW_PX + _LINE_PX * (len(it) - 1) for it in labels)
    canvas = Canvas(width, bottom + _AXIS_PX, title, "plot effects")
    delta = max((it.delta or 0.0 for it in effects), default=0.0)
    if delta:
        left, right = scale(max(-delta, scale.low)), scale(min(delta, scale.high))
        what = f"differences up to {delta:.3g} % count as equivalent"
        canvas.box(left, 0, right - left, bottom, "band", what)
    for tick in scale.ticks():
        canvas.line(scale(tick), 0, scale(tick), bottom, "zero" if tick == 0 else "axis")
        canvas.label(scale(tick), bottom + 18, f"{tick:+g} %" if tick else "0", "middle", "soft")
    top = 0
    for effect, lines in zip(effects, labels, strict=True):
        middle = top + _LINE_PX * (len(lines) - 1) + _MARK_PX
        canvas.box(_LABEL_PX, top, _INTERVALS_PX, middle - 6 - top, "ground")
        for place, line in enumerate(reversed(lines)):
            canvas.label(0, middle + 4 - _LINE_PX * place, line, kind="name")
        top = middle + _ROW_PX - _MARK_PX
        if effect.low is not None and effect.high is not None:
            canvas.line(scale(effect.low), middle, scale(effect.high), middle, effect.verdict, 3)
            interval = f", 95 % interval {effect.low:+.1f} to {effect.high:+.1f} %"
        else:
            interval = ", interval unknown"
        tooltip = f"{effect.label}: {effect.value:+.1f} %{interval}; {effect.verdict}"
        # A hollow dot is the shape of a verdict that is still open.
        kind = f"{effect.verdict} open" if effect.verdict == "undetermined" else effect.verdict
        canvas.dot(scale(effect.value), middle, kind, tooltip, 5)
    return canvas.svg()


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


_BOX_ROW_PX, _BOX_AXIS_PX, _BOX_LABEL_PX = 64, 40, 230
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
    label_px = min(_BOX_LABEL_PX, max(len(it.label) for it in rows) * CHARACTER_PX + 14)
    scale = scale_of(values, label_px, width - 16)
    height = len(rows) * _BOX_ROW_PX + _BOX_AXIS_PX
    canvas = Canvas(width, height, title)
    bottom = height - _BOX_AXIS_PX
    for tick in scale.ticks(6):
        canvas.line(scale(tick), 0, scale(tick), bottom, "axis")
        canvas.label(scale(tick), bottom + 16, f"{tick:g}", "middle", "soft")
    canvas.label((label_px + width - 16) / 2, height - 6, unit, "middle", "soft")
    for number, row in enumerate(rows):
        middle = number * _BOX_ROW_PX + _BOX_ROW_PX / 2
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
