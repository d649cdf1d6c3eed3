"""Releases of a package by indicator on one hardware class, as a matrix."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flask import url_for
from markupsafe import Markup

from adviser.group_titles import TitledSeries, differing_settings
from adviser.plots.matrix import DrawnCell, DrawnColumn, matrix_plot
from api.pages.formatting import visible
from api.pages.site import plot
from model.packages.identity import version_key

#: Releases in a matrix; the newest ones that were measured.
_ROWS = 40


@dataclass(frozen=True, slots=True)
class EffectColumn:
    """A group as a column: the fastest stack of each measured version of the package.

    :param details: settings that tell it apart from other groups of its indicator
    """

    group: Mapping[str, Any]
    details: Sequence[str]
    stacks: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class PackageMatrix:
    """A drawn matrix.

    :param shown: number of its releases
    :param measured: number of all measured releases
    """

    hardware: Mapping[str, Any]
    drawing: Markup
    shown: int
    measured: int


def effect_columns(groups: Iterable[Mapping[str, Any]], name: str) -> list[EffectColumn]:
    """The groups with several measured versions of a package, by indicator and parameters.

    :param groups: of one hardware class
    """
    compared = []
    for group in groups:
        by_version: dict[str, Mapping[str, Any]] = {}
        for stack in group["stacks"]:
            if stack["component"] == name and stack["component_version"]:
                by_version.setdefault(stack["component_version"], stack)
        if len(by_version) > 1:
            compared.append((group, by_version))
    compared.sort(key=lambda it: _order(it[0]))
    details = differing_settings(
        [
            TitledSeries(
                group["indicator"], None, group["hardware"]["digest"],
                {**group["parameters"], "device": group["device"],
                 "Python": group["python_version"], "script": (group["script_sha256"] or "")[:8]},
            )
            for group, _ in compared
        ]
    )  # fmt: skip
    return [
        EffectColumn(group, settings, stacks)
        for (group, stacks), settings in zip(compared, details, strict=True)
    ]


def _order(group: Mapping[str, Any]) -> tuple[str, list[tuple[str, float, str]]]:
    """Numbers are ordered by their value."""
    parameters = sorted(group["parameters"].items())
    return group["indicator"], [
        (name, value, "") if isinstance(value, int | float) else (name, math.inf, str(value))
        for name, value in parameters
    ]


def package_matrix(columns: Sequence[EffectColumn], name: str) -> PackageMatrix:
    """Draw the matrix.

    :param columns: at least one
    """
    hardware = columns[0].group["hardware"]
    measured = {version for it in columns for version in it.stacks}
    newest = sorted(measured, key=version_key, reverse=True)[:_ROWS]
    rows = [(visible(it), [_cell(column.stacks.get(it)) for column in columns]) for it in newest]
    verdicts = Counter(cell.verdict for _, cells in rows for cell in cells if cell)
    summary = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common())
    title = f"Releases of {name} by indicator on {hardware['label']}: {summary}"
    drawing = plot(matrix_plot([_column(it) for it in columns], rows, visible(title)))
    return PackageMatrix(hardware, drawing, len(newest), len(measured))


def _column(effect: EffectColumn) -> DrawnColumn:
    group = effect.group
    url = url_for(
        "pages-series.history", comparison_key=group["comparison_key"],
        python=group["python_version"],
    )  # fmt: skip
    return DrawnColumn(visible(group["indicator"]), [visible(it) for it in effect.details], url)


def _cell(stack: Mapping[str, Any] | None) -> DrawnCell | None:
    if stack is None:
        return None
    comparison = stack["comparison"]
    if comparison is None:
        return DrawnCell("baseline")
    return DrawnCell(comparison["verdict"], comparison["difference_pct"])
