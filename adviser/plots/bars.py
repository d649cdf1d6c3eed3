"""Values of named rows, as bars."""

from __future__ import annotations

from collections.abc import Sequence

from adviser.plots.canvas import CHARACTER_PX, ROW_PX, Canvas, Scale, fit_text

_WIDTH_PX, _LABEL_PX, _VALUE_PX = 680, 280, 80


def bars_plot(rows: Sequence[tuple[str, float]], title: str) -> str:
    """Draw a bar from zero for each row, with its value, as SVG.

    :param rows: at least one label with its value
    """
    canvas = Canvas(_WIDTH_PX, len(rows) * ROW_PX, title)
    label_px = min(_LABEL_PX, max(len(label) for label, _ in rows) * CHARACTER_PX + 20)
    values = [value for _, value in rows]
    low, high = min(0.0, *values), max(0.0, *values)
    across = Scale(low, high if high > low else low + 1, label_px, _WIDTH_PX - _VALUE_PX)
    for row, (label, value) in enumerate(rows):
        top = row * ROW_PX
        canvas.label(0, top + ROW_PX / 2 + 4, fit_text(label, label_px - 8))
        left, right = sorted((across(0.0), across(value)))
        canvas.box(left, top + 5, max(right - left, 1), ROW_PX - 10, "mark", f"{label}: {value:g}")
        canvas.label(right + 6, top + ROW_PX / 2 + 4, f"{value:.4g}", "start", "soft")
    return canvas.svg()
