"""Statistics of jobs: summaries with outliers, variance within and between jobs, order in time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Annotated

from adviser.scoring.comparisons import MIN_DELTA
from adviser.scoring.drift import steps
from model.declared_fields import Field
from model.measurements.job_stability import MAD_TO_SD

#: Modified z-score from which a value is an outlier (Iglewicz & Hoaglin 1993, "How to Detect and
#: Handle Outliers").
OUTLIER_SCORE = 3.5


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """Summary of some values in their own unit."""

    n: Annotated[int, Field("Number of jobs.", 10)]
    median: Annotated[float, Field("Median.", 9.4e10)]
    mean: Annotated[float, Field("Mean.", 9.3e10)]
    sd: Annotated[float | None, Field("Standard deviation (n − 1); null below two values.", 2e9)]
    mad: Annotated[float, Field("Median absolute deviation, unscaled.", 1e9)]
    lower_quartile: Annotated[float, Field("Lower quartile, by linear interpolation.", 9.2e10)]
    upper_quartile: Annotated[float, Field("Upper quartile.", 9.5e10)]
    minimum: Annotated[float, Field("Smallest value.", 9e10)]
    maximum: Annotated[float, Field("Largest value.", 9.7e10)]
    cv: Annotated[float | None, Field("Standard deviation / mean; null below two values.", 0.02)]


def summary_of(values: Sequence[float]) -> ValueSummary:
    """Summarise positive values; the order does not matter, not even in the last bit.

    :param values: at least one

    >>> summary_of([1.0, 2.0, 3.0, 4.0]).lower_quartile
    1.75
    """
    ordered = sorted(values)
    mean = math.fsum(ordered) / len(ordered)
    sd = None
    if len(ordered) > 1:
        sd = math.sqrt(math.fsum((it - mean) ** 2 for it in ordered) / (len(ordered) - 1))
    middle = median(ordered)
    return ValueSummary(
        n=len(ordered),
        median=middle,
        mean=mean,
        sd=sd,
        mad=median(abs(it - middle) for it in ordered),
        lower_quartile=quantile(ordered, 0.25),
        upper_quartile=quantile(ordered, 0.75),
        minimum=ordered[0],
        maximum=ordered[-1],
        cv=None if sd is None else sd / mean,
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The quantile of sorted values, by linear interpolation (Hyndman & Fan 1996, type 7).

    :param ordered: ascending, at least one
    """
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def outliers(values: Sequence[float]) -> list[int]:
    """Indexes of the values whose modified z-score exceeds :data:`OUTLIER_SCORE`.

    Outliers are shown, never excluded: a rule that looks at the speed of a job could favour a
    stack. Without any deviation from the median, there is no outlier.

    >>> outliers([1.0, 1.1, 0.9, 1.05, 3.0])
    [4]
    """
    if len(values) < 3:
        return []
    middle = median(values)
    scale = MAD_TO_SD * median(abs(it - middle) for it in values)
    if scale == 0:
        return []
    return [i for i, it in enumerate(values) if abs(it - middle) / scale > OUTLIER_SCORE]


#: Quantiles of the normal distribution for α = 5 % (one-sided) and a power of 80 %.
_Z_ALPHA, _Z_BETA = 1.6449, 0.8416
#: Difference for which the number of jobs is stated.
PLANNED_DIFFERENCE = 0.05
#: Upper limit of recommended repetitions; a job should end within minutes.
MOST_REPETITIONS = 100_000


@dataclass(frozen=True, slots=True)
class VarianceComponents:
    """Variances of log rates; their square roots are relative standard deviations.

    :param within: variance of the repetitions of a job
    :param between: variance of the jobs, without the part that comes from their repetitions
    :param repetitions: typical number of repetitions of a job
    """

    within: float
    between: float
    jobs: int
    repetitions: float

    @property
    def of_a_job(self) -> float:
        """Variance of one job's mean with the typical number of repetitions."""
        return self.between + self.within / self.repetitions

    @property
    def within_share(self) -> float | None:
        """Share of the repetitions in the variance of a job; ``None`` without any variance."""
        total = self.of_a_job
        return self.within / self.repetitions / total if total > 0 else None


def variance_components(jobs: Sequence[Sequence[float]]) -> VarianceComponents | None:
    """Estimate both variances by analysis of variance (one-way, random effects).

    :param jobs: rates of the repetitions of each job, positive
    :returns: ``None`` unless two jobs have two repetitions each
    """
    logs = [[math.log(it) for it in job] for job in jobs if len(job) > 1]
    if len(logs) < 2:
        return None
    means = [math.fsum(job) / len(job) for job in logs]
    squares = sorted(
        (value - mean) ** 2 for job, mean in zip(logs, means, strict=True) for value in job
    )
    within = math.fsum(squares) / sum(len(job) - 1 for job in logs)
    middle = math.fsum(sorted(means)) / len(means)
    of_means = math.fsum(sorted((it - middle) ** 2 for it in means)) / (len(means) - 1)
    noise = within * math.fsum(sorted(1 / len(job) for job in logs)) / len(logs)
    return VarianceComponents(
        within, max(0.0, of_means - noise), len(logs), median(len(job) for job in logs)
    )


@dataclass(frozen=True, slots=True)
class RepetitionAdvice:
    """How to divide a budget between jobs and repetitions."""

    repetitions: Annotated[
        int | None, Field("Repetitions of a job; null if only repetitions vary.", 12)
    ]
    job_cost_s: Annotated[float, Field("Time of a job before its repetitions.", 1.5, unit="s")]
    repetition_cost_s: Annotated[float, Field("Time of a repetition.", 0.02, unit="s")]
    within: float
    between: float
    jobs: Annotated[
        int | None, Field("Jobs of each stack that show a difference of 5 % in 80 % of cases.", 40)
    ]
    exact: Annotated[
        bool, Field("Whether this time is known; if not, `repetitions` is an upper limit.")
    ]


def repetition_advice(
    within: float,
    between: float,
    job_cost_s: float,
    repetition_cost_s: float,
    *,
    exact: bool = True,
) -> RepetitionAdvice:
    """``r = ⌈√(c_job / c_rep · s²_within / s²_between)⌉`` (Kalibera & Jones 2013).

    This number of repetitions makes the variance of a mean smallest for a given budget of time.
    The costs are at least a nanosecond.

    >>> repetition_advice(0.01**2, 0.03**2, 60.0, 0.5).repetitions
    4
    """
    job_cost, repetition_cost = max(job_cost_s, 1e-9), max(repetition_cost_s, 1e-9)
    repetitions = None
    if between > 0:
        best = math.sqrt(job_cost / repetition_cost * within / between)
        repetitions = min(max(1, math.ceil(best)), MOST_REPETITIONS)
    variance = between + within / (repetitions or MOST_REPETITIONS)
    return RepetitionAdvice(
        repetitions, job_cost, repetition_cost, within, between, jobs_needed(variance), exact
    )


def jobs_needed(variance: float) -> int | None:
    """Jobs of each stack for a verdict on a difference (rule 6 of the statistics).

    ``2 (z₁₋α + z₁₋β)² s² / (Δ − ln(1 + δ))²``, at least five.

    :param variance: of a job's log rate
    """
    margin = math.log1p(PLANNED_DIFFERENCE) - math.log1p(MIN_DELTA)
    needed = 2 * (_Z_ALPHA + _Z_BETA) ** 2 * variance / margin**2
    return max(5, math.ceil(needed)) if math.isfinite(needed) else None


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
