"""Short titles of series: only what tells them apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from model.measurements.evidence import COMMAND, COMMAND_TEXT

#: Parameter with the name of what an indicator of a library measures.
_OPERATION = "operation"


def indicator_title(indicator: str, parameters: Mapping[str, Any]) -> str:
    """The name of an indicator; of the measurements of a command, the command.

    >>> indicator_title("PiMatmul", {}), indicator_title("command", {"command": "python a.py"})
    ('PiMatmul', '`python a.py`')
    """
    command = parameters.get(COMMAND_TEXT)
    return f"`{command}`" if indicator == COMMAND and isinstance(command, str) else indicator


@dataclass(frozen=True, slots=True)
class TitledSeries:
    """What a title is made of.

    :param component: measured library, if known
    :param settings: parameters and other settings that may tell series apart
    """

    indicator: str
    component: str | None
    hardware_label: str
    settings: Mapping[str, Any]


def differing_settings(series: Sequence[TitledSeries]) -> list[list[str]]:
    """For each series, in order, the settings that tell it apart from series like it.

    >>> sizes = ({"matrix_size": 64, "dtype": "f32"}, {"matrix_size": 128, "dtype": "f32"})
    >>> differing_settings([TitledSeries("PiMatmul", None, "AMD EPYC", it) for it in sizes])
    [['matrix_size 64'], ['matrix_size 128']]
    """
    alike: dict[tuple[str, str | None, str], list[TitledSeries]] = defaultdict(list)
    for it in series:
        alike[it.indicator, it.component, it.hardware_label].append(it)
    return [_settings(it, alike[it.indicator, it.component, it.hardware_label]) for it in series]


def short_titles(series: Sequence[TitledSeries]) -> list[str]:
    """A title for each series, in order: indicator, library, differing settings and hardware.

    >>> on = "AMD EPYC, 2 CPUs"
    >>> sizes = ({"matrix_size": 64, "dtype": "f32"}, {"matrix_size": 128, "dtype": "f32"})
    >>> short_titles([TitledSeries("PiMatmul", "numpy", on, it) for it in sizes])[0]
    'PiMatmul of numpy, matrix_size 64, on AMD EPYC, 2 CPUs'
    """
    titles = []
    for titled, settings in zip(series, differing_settings(series), strict=True):
        library = f" of {titled.component}" if titled.component else ""
        parts = [f"{titled.indicator}{library}", *settings, f"on {titled.hardware_label}"]
        titles.append(", ".join(parts))
    return titles


def _settings(series: TitledSeries, alike: Sequence[TitledSeries]) -> list[str]:
    names = sorted({name for it in alike for name in it.settings})
    values = {name: {repr(it.settings.get(name)) for it in alike} for name in names}
    differing = [name for name in names if len(values[name]) > 1]
    # Sizes belong to an operation, so its name says it all.
    if len(values.get(_OPERATION, ())) == len({repr(sorted(it.settings.items())) for it in alike}):
        differing = [_OPERATION]
    values_here = {it: series.settings.get(it) for it in differing}
    return [f"{it} {'unset' if value is None else value}" for it, value in values_here.items()]
