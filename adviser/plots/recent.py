"""The last inspections of a series as small dots without axes, for a line of text."""

from __future__ import annotations

from collections.abc import Sequence

from adviser.plots.canvas import Canvas, Scale

_RADIUS_PX = 2.5
#: Distance between neighbours unless the width is too small for it, px.
_STEP_PX = 14
#: Space around the outermost dots, px.
_MARGIN_PX = 4
#: The whole height is at least this share of the largest value, so that noise looks small.
_LEAST_SPAN = 0.1


def recent_plot(values: Sequence[float], title: str, width: float = 160, height: float = 28) -> str:
    """Draw a dot for each value, as SVG.

    No line joins the dots, because neighbours may be of different stacks.

    :param values: at least one, oldest first
    :param width: maximum width, px
    """
    steps = max(len(values) - 1, 1)
    width = min(width, steps * _STEP_PX + 2 * _MARGIN_PX)
    canvas = Canvas(width, height, title, "plot recent")
    middle = (min(values) + max(values)) / 2
    span = max(max(values) - min(values), _LEAST_SPAN * max(map(abs, values))) or 1.0
    up = Scale(middle - span / 2, middle + span / 2, height - _MARGIN_PX, _MARGIN_PX)
    across = Scale(0, steps, _MARGIN_PX, width - _MARGIN_PX)
    for place, value in enumerate(values):
        canvas.dot(across(place), up(value), "mark", radius=_RADIUS_PX)
    return canvas.svg()
