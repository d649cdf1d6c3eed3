"""Differences with their intervals, one row for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adviser.plots.canvas import Canvas, fit_text, scale_of

#: The style sheet repeats these widths: on a phone, it moves the labels above the intervals and
#: hides the column of labels.
_LABEL_PX, _INTERVALS_PX = 250, 430
#: Height of a row with space for the label above it, and place of its mark.
_ROW_PX, _MARK_PX = 32, 22
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
    height = len(effects) * _ROW_PX + _AXIS_PX
    canvas = Canvas(width, height, title, "plot effects")
    bottom = height - _AXIS_PX
    delta = max((it.delta or 0.0 for it in effects), default=0.0)
    if delta:
        left, right = scale(max(-delta, scale.low)), scale(min(delta, scale.high))
        canvas.box(
            left,
            0,
            right - left,
            bottom,
            "band",
            f"differences up to {delta:.3g} % count as equivalent",
        )
    for tick in scale.ticks():
        canvas.line(scale(tick), 0, scale(tick), bottom, "zero" if tick == 0 else "axis")
        canvas.label(scale(tick), bottom + 18, f"{tick:+g} %" if tick else "0", "middle", "soft")
    for row, effect in enumerate(effects):
        middle = row * _ROW_PX + _MARK_PX
        canvas.label(0, middle + 4, fit_text(effect.label, _LABEL_PX - 8), kind="name")
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
