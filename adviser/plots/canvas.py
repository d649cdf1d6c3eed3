"""A drawing area with a scale, from which the plots are made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
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
