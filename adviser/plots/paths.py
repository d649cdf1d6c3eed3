"""Paths: nodes in columns, from where they start to where they lead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from adviser.plots.canvas import CHARACTER_PX, Canvas, fit_text

#: More nodes than this cannot be read; a page lists all of them beside the drawing.
MOST_NODES = 60
_COLUMN_PX, _BOX_PX, _ROW_PX, _HEIGHT_PX = 240, 200, 32, 24


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node to be drawn.

    :param url: where it leads
    :param kind: class of the box
    """

    identifier: str
    label: str
    url: str
    kind: str = "band"


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """An arrow between two nodes."""

    source: str
    target: str
    label: str


def paths_plot(nodes: Sequence[DrawnNode], edges: Sequence[DrawnEdge], title: str) -> str:
    """Draw nodes in columns by their distance from the start, and lines between them, as SVG.

    :param nodes: at least one; only the first :data:`MOST_NODES` are drawn
    """
    drawn = {it.identifier: it for it in nodes[:MOST_NODES]}
    lines = [it for it in edges if it.source in drawn and it.target in drawn]
    columns = defaultdict(list)
    for identifier, depth in _depths(list(drawn), lines).items():
        columns[depth].append(identifier)
    tallest = max(len(column) for column in columns.values())
    width = (max(columns) + 1) * _COLUMN_PX - (_COLUMN_PX - _BOX_PX)
    canvas = Canvas(width, tallest * _ROW_PX, title)
    at = {
        identifier: (depth * _COLUMN_PX, (row + (tallest - len(column)) / 2) * _ROW_PX)
        for depth, column in columns.items()
        for row, identifier in enumerate(column)
    }
    for line in lines:
        (left, top), (right, bottom) = at[line.source], at[line.target]
        middle = _HEIGHT_PX / 2
        tooltip = f"{drawn[line.source].label} {line.label} {drawn[line.target].label}"
        canvas.line(left + _BOX_PX, top + middle, right, bottom + middle, "stroke", 1, tooltip)
    for identifier, node in drawn.items():
        left, top = at[identifier]
        part = canvas.link(node.url, node.label)
        part.box(left, top, _BOX_PX, _HEIGHT_PX, node.kind, node.label)
        text = fit_text(node.label, _BOX_PX - 2 * CHARACTER_PX)
        part.label(left + CHARACTER_PX, top + 16, text)
    return canvas.svg()


def _depths(nodes: Sequence[str], edges: Sequence[DrawnEdge]) -> dict[str, int]:
    """The number of steps to each node from the next node where paths start."""
    targets = defaultdict(list)
    for edge in edges:
        targets[edge.source].append(edge.target)
    ends = {edge.target for edge in edges}
    level = [it for it in nodes if it not in ends] or list(nodes[:1])
    depths = dict.fromkeys(level, 0)
    while level:
        level = [it for source in level for it in targets[source] if it not in depths]
        depths |= dict.fromkeys(level, max(depths.values()) + 1)
    return {it: depths.get(it, 0) for it in nodes}
