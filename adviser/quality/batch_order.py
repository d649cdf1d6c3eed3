"""Jobs in the order of time: autocorrelation, drift and steps of a batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from adviser.scoring.drift import steps
from model.declared_fields import Field

#: Minimum number of jobs for an autocorrelation or a drift.
MIN_ORDERED = 8


@dataclass(frozen=True, slots=True)
class TimedValue:
    """A job's log rate minus the mean of its stack, and when the job ended."""

    at: datetime
    value: float


@dataclass(frozen=True, slots=True)
class OrderReport:
    """What the order of the jobs shows; a straight line shows the drift from first to last."""

    jobs: Annotated[int, Field("Number of jobs.", 20)]
    hours: Annotated[float, Field("Time from the first job to the last.", 1.5, unit="h")]
    autocorrelation: Annotated[float, Field("Of neighbouring jobs, relative to their stacks.", 0.1)]
    correlation_limit: Annotated[
        float, Field("Autocorrelation that chance alone gives (95 %).", 0.44)
    ]
    drift_pct: Annotated[float, Field("Change of the rate over the batch.", 1.0, unit="%")]
    drift_low_pct: Annotated[float, Field("Lower end of its 95 % interval.", -1.0, unit="%")]
    drift_high_pct: Annotated[float, Field("Upper end of its 95 % interval.", 3.0, unit="%")]
    step_times: tuple[datetime, ...]

    @property
    def drifts(self) -> bool:
        """Whether the interval of the drift excludes zero."""
        return self.drift_low_pct > 0 or self.drift_high_pct < 0

    @property
    def correlated(self) -> bool:
        """Whether neighbours are more alike, or less, than by chance."""
        return abs(self.autocorrelation) > self.correlation_limit


def order_report(jobs: Sequence[TimedValue]) -> OrderReport | None:
    """Examine jobs of one host in the order of time; the order of the sequence does not matter.

    :returns: ``None`` below :data:`MIN_ORDERED` jobs, or if nothing varies
    """
    ordered = sorted(jobs, key=lambda it: (it.at, it.value))
    if len(ordered) < MIN_ORDERED:
        return None
    values = [it.value for it in ordered]
    begin = ordered[0].at
    hours = [(it.at - begin).total_seconds() / 3600 for it in ordered]
    mean = math.fsum(values) / len(values)
    residuals = [it - mean for it in values]
    squares = math.fsum(it * it for it in residuals)
    if squares == 0 or hours[-1] == 0:
        return None
    correlation = math.fsum(map(float.__mul__, residuals[1:], residuals)) / squares
    drift, half = _drift(hours, residuals, correlation)
    return OrderReport(
        jobs=len(values),
        hours=hours[-1],
        autocorrelation=correlation,
        correlation_limit=1.96 / math.sqrt(len(values)),
        drift_pct=_pct(drift),
        drift_low_pct=_pct(drift - half),
        drift_high_pct=_pct(drift + half),
        step_times=tuple(ordered[i].at for i in steps(values)),
    )


def _drift(
    hours: Sequence[float], residuals: Sequence[float], correlation: float
) -> tuple[float, float]:
    """Change over the whole batch by least squares, and half the width of its interval."""
    from scipy.special import stdtrit

    n = len(hours)
    middle = math.fsum(hours) / n
    spread = math.fsum((it - middle) ** 2 for it in hours)
    slope = math.fsum((h - middle) * r for h, r in zip(hours, residuals, strict=True)) / spread
    left = math.fsum((r - slope * (h - middle)) ** 2 for h, r in zip(hours, residuals, strict=True))
    # Correlated neighbours carry less information than independent jobs.
    inflation = math.sqrt((1 + min(correlation, 0.9)) / (1 - min(correlation, 0.9)))
    error = math.sqrt(left / (n - 2) / spread) * max(1.0, inflation)
    span = hours[-1] - hours[0]
    return slope * span, float(stdtrit(n - 2, 0.975)) * error * span


def _pct(log: float) -> float:
    return 100 * math.expm1(log)
