"""Performance over a parameter: interpolation with bands, and where two stacks cross."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

from model.declared_fields import Field
from model.measurements.job_samples import SeriesSettings
from model.measurements.units import THREAD_VARIABLES

#: Name of the axis of the parameter ``threads`` and the variables that set it.
THREADS = "threads"
#: Points between two measured values at which the difference of two stacks is interpolated.
_FINENESS = 64


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """An estimate at one value of a parameter, natural logs, with its 95 % interval.

    :param x: value of the parameter, positive
    :param low: ``-inf`` if the interval is unknown
    """

    x: float
    value: float
    low: float
    high: float
    jobs: int


@dataclass(frozen=True, slots=True)
class CurveCrossing:
    """Where two stacks are equally fast."""

    x: Annotated[float, Field("Value of the parameter, interpolated.", 700.0)]
    low: Annotated[
        float | None, Field("Lower end of its 95 % interval; null if nothing bounds it.", 500.0)
    ]
    high: Annotated[
        float | None, Field("Upper end of its 95 % interval; null if nothing bounds it.", 900.0)
    ]


def mean_point(x: float, log_rates: Sequence[float]) -> CurvePoint | None:
    """The mean log rate of the jobs at one value, with its t interval; ``None`` without jobs."""
    from scipy.special import stdtrit

    n = len(log_rates)
    if not n:
        return None
    ordered = sorted(log_rates)
    mean = math.fsum(ordered) / n
    half = math.inf
    if n > 1:
        variance = math.fsum((it - mean) ** 2 for it in ordered) / (n - 1)
        half = float(stdtrit(n - 1, 0.975)) * math.sqrt(variance / n)
    return CurvePoint(x, mean, mean - half, mean + half, n)


def interpolated(points: Sequence[CurvePoint], x: float) -> CurvePoint:
    """The curve at ``x``, linear in the logarithm of the parameter.

    The band between two points is that of the weighted mean of two independent estimates, so it is
    narrowest between the points. It does not cover a bend of the true curve between them.

    :param points: ascending by ``x``, at least one; beyond the ends, the nearest point counts

    >>> points = [CurvePoint(64, 0.0, -0.3, 0.3, 5), CurvePoint(256, 2.0, 1.6, 2.4, 5)]
    >>> middle = interpolated(points, 128)
    >>> middle.value, round(middle.high - middle.value, 6)
    (1.0, 0.25)
    """
    if x <= points[0].x:
        return points[0]
    for left, right in pairwise(points):
        if x <= right.x:
            share = math.log(x / left.x) / math.log(right.x / left.x)
            value = (1 - share) * left.value + share * right.value
            below = _half(left.value - left.low, right.value - right.low, share)
            above = _half(left.high - left.value, right.high - right.value, share)
            return CurvePoint(x, value, value - below, value + above, min(left.jobs, right.jobs))
    return points[-1]


def _half(left: float, right: float, share: float) -> float:
    """Half the width of a band between two points; an unknown width is infinite."""
    if share >= 1:
        return right
    return math.hypot((1 - share) * left, share * right)


def crossings(differences: Sequence[CurvePoint]) -> list[CurveCrossing]:
    """Where the difference of two stacks changes its sign, ascending.

    The interval of a crossing holds all neighbouring values at which the band of the difference
    contains zero.

    :param differences: candidate − baseline at the measured values, ascending by ``x``
    """
    if len(differences) < 2:
        return []
    grid = [interpolated(differences, x) for x in _grid(differences)]
    changes = [
        (i, _zero(left, right))
        for i, (left, right) in enumerate(pairwise(grid))
        if left.value != 0 and (right.value == 0 or (left.value < 0) != (right.value < 0))
    ]
    return [CurveCrossing(x, *_reach(grid, i)) for i, x in changes]


def _grid(points: Sequence[CurvePoint]) -> Iterator[float]:
    for left, right in pairwise(points):
        ratio = right.x / left.x
        yield from (left.x * ratio ** (step / _FINENESS) for step in range(_FINENESS))
    yield points[-1].x


def _zero(left: CurvePoint, right: CurvePoint) -> float:
    share = left.value / (left.value - right.value)
    return left.x * math.exp(share * math.log(right.x / left.x))


def _reach(grid: Sequence[CurvePoint], place: int) -> tuple[float | None, float | None]:
    """The ends of the values around a crossing at which zero is possible."""
    below = next((i for i in range(place, -1, -1) if not _may_be_zero(grid[i])), None)
    above = next((i for i in range(place + 1, len(grid)) if not _may_be_zero(grid[i])), None)
    return (
        None if below is None else grid[below].x,
        None if above is None else grid[above].x,
    )


def _may_be_zero(point: CurvePoint) -> bool:
    return point.low <= 0 <= point.high


@dataclass(frozen=True, slots=True)
class ParameterAxis:
    """Series that differ in one numeric setting only.

    :param keys: comparison key by value, ascending; at least two
    """

    name: str
    keys: Mapping[float, str]


def parameter_axes(target: SeriesSettings, others: Sequence[SeriesSettings]) -> list[ParameterAxis]:
    """The settings along which a series can be compared with others, by name.

    The parameter ``threads`` and the environment variables that set the number of threads are one
    axis.

    :param others: series of the same indicator, in any order; the target may be among them
    """
    ours = _settings(target)
    axes: dict[str, dict[float, str]] = {}
    for other in sorted(others, key=lambda it: it.comparison_key):
        if _place(other) != _place(target) or other.comparison_key == target.comparison_key:
            continue
        theirs = _settings(other)
        differing = [it for it in ours.keys() | theirs if ours.get(it) != theirs.get(it)]
        if len(differing) != 1:
            continue
        own, value = (_positive(it.get(differing[0])) for it in (ours, theirs))
        if own is not None and value is not None:
            axis = axes.setdefault(differing[0], {own: target.comparison_key})
            axis.setdefault(value, other.comparison_key)
    return [ParameterAxis(name, dict(sorted(axes[name].items()))) for name in sorted(axes)]


def _place(series: SeriesSettings) -> tuple[Any, ...]:
    machine = {k: v for k, v in series.hardware.items() if k != "threads_environment"}
    return series.indicator, series.script_sha256, series.device, series.unit, machine


def _settings(series: SeriesSettings) -> dict[str, Any]:
    """Parameters, and the number of threads if parameters or variables set it."""
    settings = dict(series.parameters)
    variables = series.hardware.get("threads_environment")
    if settings.get(THREADS) is None and isinstance(variables, dict):
        values = {str(variables.get(name)) for name in THREAD_VARIABLES if name in variables}
        if len(values) == 1 and (text := values.pop()).isdecimal():
            settings[THREADS] = int(text)
        else:
            settings[THREADS] = variables
    return settings


def _positive(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if value > 0 and math.isfinite(value) else None
