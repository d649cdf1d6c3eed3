"""A matrix of effects, such as releases by indicators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adviser.plots.canvas import CHARACTER_PX, ROW_PX, Canvas, fit_text

_LABEL_PX, _HEAD_PX, _LINE_PX = 130, 22, 16
#: Width of a column, by the length of its title.
_NARROWEST_PX, _WIDEST_PX = 90, 160
#: Distance between two cells, px.
_GAP_PX = 3
#: Verdicts differ in colour, shape and sign.
_SHAPES = {"faster": "▲", "slower": "▼", "equivalent": "="}


@dataclass(frozen=True, slots=True)
class DrawnColumn:
    """A column of a matrix.

    :param details: what tells it apart from columns with the same label, by line
    :param url: where its cells lead
    """

    label: str
    details: Sequence[str]
    url: str


@dataclass(frozen=True, slots=True)
class DrawnCell:
    """A cell of a matrix.

    :param verdict: ``baseline`` for what the other cells of the column are compared with
    :param effect: difference to the baseline, %; ``None`` if it is unknown
    """

    verdict: str
    effect: float | None = None


def matrix_plot(
    columns: Sequence[DrawnColumn],
    rows: Sequence[tuple[str, Sequence[DrawnCell | None]]],
    title: str,
) -> str:
    """Draw a box with verdict and effect for each cell, as SVG.

    An undetermined cell is an empty box; a cell that was not measured has none.

    :param columns: at least one
    :param rows: at least one: label, and one cell for each column; ``None`` if it was not measured
    """
    label_px = min(_LABEL_PX, max(len(label) for label, _ in rows) * CHARACTER_PX + 16)
    longest = max(len(text) for it in columns for text in (it.label, *it.details))
    column_px = min(_WIDEST_PX, max(_NARROWEST_PX, longest * CHARACTER_PX + 10))
    head_px = _HEAD_PX + _LINE_PX * max(len(it.details) for it in columns)
    size = label_px + len(columns) * column_px, head_px + len(rows) * ROW_PX
    canvas = Canvas(*size, title, "plot matrix")
    for place, column in enumerate(columns):
        left = label_px + place * column_px + _GAP_PX
        canvas.label(left, 14, fit_text(column.label, column_px - 10))
        for line, detail in enumerate(column.details, 1):
            text = fit_text(detail, column_px - 10)
            canvas.label(left, 14 + line * _LINE_PX, text, kind="soft")
    for number, (label, cells) in enumerate(rows):
        top = head_px + number * ROW_PX
        canvas.label(0, top + ROW_PX / 2 + 4, fit_text(label, label_px - 8))
        for place, (column, cell) in enumerate(zip(columns, cells, strict=True)):
            if cell is not None:
                at = label_px + place * column_px, top, column_px
                _cell(canvas, at, label, column, cell)
    return canvas.svg()


def _cell(
    canvas: Canvas,
    at: tuple[float, float, float],
    label: str,
    column: DrawnColumn,
    cell: DrawnCell,
) -> None:
    left, top, column_px = at
    effect = "" if cell.effect is None else f"{cell.effect:+.1f} %"
    name = ", ".join((label, column.label, *column.details))
    tooltip = f"{name}: {cell.verdict} {effect}".rstrip()
    part = canvas.link(column.url, tooltip)
    shape = _SHAPES.get(cell.verdict)
    kind = cell.verdict if shape or cell.verdict == "baseline" else "undetermined open"
    width, height = column_px - 2 * _GAP_PX, ROW_PX - 2 * _GAP_PX
    part.box(left + _GAP_PX, top + _GAP_PX, width, height, f"cell {kind}", tooltip)
    text = f"{shape} {effect}" if shape else "baseline" if cell.verdict == "baseline" else ""
    if text:
        part.label(left + column_px / 2, top + ROW_PX / 2 + 4, text, "middle")
