"""A history as small as a word, without axes: it stands in a list beside its last value."""

from __future__ import annotations

from collections.abc import Sequence

from adviser.plots.canvas import Canvas, Scale

#: Space for the last dot, px.
_MARGIN_PX = 4
#: The whole height is at least this share of the largest value, so that noise looks small.
_LEAST_SPAN = 0.1


def sparkline(values: Sequence[float], title: str, width: float = 140, height: float = 28) -> str:
    """Draw a line through the values and a dot at the last one, as SVG.

    :param values: at least one, oldest first
    """
    canvas = Canvas(width, height, title, "plot spark")
    middle = (min(values) + max(values)) / 2
    span = max(max(values) - min(values), _LEAST_SPAN * max(map(abs, values))) or 1.0
    up = Scale(middle - span / 2, middle + span / 2, height - _MARGIN_PX, _MARGIN_PX)
    across = Scale(0, max(len(values) - 1, 1), _MARGIN_PX, width - _MARGIN_PX)
    points = [(across(place), up(value)) for place, value in enumerate(values)]
    if len(points) > 1:
        canvas.path(points, "line")
    canvas.dot(*points[-1], "mark", title, 3)
    return canvas.svg()
