"""Short titles of series: only what tells them apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


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


def short_titles(series: Sequence[TitledSeries]) -> list[str]:
    """A title for each series, in order: indicator, library, differing settings and hardware.

    >>> on = "AMD EPYC, 2 CPUs"
    >>> sizes = ({"matrix_size": 64, "dtype": "f32"}, {"matrix_size": 128, "dtype": "f32"})
    >>> short_titles([TitledSeries("PiMatmul", "numpy", on, it) for it in sizes])[0]
    'PiMatmul of numpy, matrix_size 64, on AMD EPYC, 2 CPUs'
    """
    alike: dict[tuple[str, str | None, str], list[TitledSeries]] = defaultdict(list)
    for it in series:
        alike[it.indicator, it.component, it.hardware_label].append(it)
    return [_title(it, alike[it.indicator, it.component, it.hardware_label]) for it in series]


def _title(series: TitledSeries, alike: Sequence[TitledSeries]) -> str:
    names = sorted({name for it in alike for name in it.settings})
    differing = [name for name in names if len({repr(it.settings.get(name)) for it in alike}) > 1]
    library = f" of {series.component}" if series.component else ""
    settings = [f"{it} {_value(series.settings.get(it))}" for it in differing]
    return ", ".join([f"{series.indicator}{library}", *settings, f"on {series.hardware_label}"])


def _value(value: Any) -> str:
    return "unset" if value is None else str(value)
