"""Statistics of jobs: summaries with outliers, variance within and between jobs, order in time.

Batches with different numbers of repetitions show which number suffices.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from statistics import median
from typing import Annotated

from adviser.scoring.comparisons import MIN_DELTA
from adviser.scoring.drift import steps
from adviser.scoring.effects import Variance, variance_ratio
from model.declared_fields import Field, unbounded
from model.measurements.evidence import SeriesSettings
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
    """Drift and correlation of ordered jobs; a straight line shows the drift from first to last."""

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


#: Names of the parameter that sets the number of repetitions.
_REPETITIONS = ("reps", "repetitions")
#: Numbers of repetitions that are tried, per power of ten.
_STEPS = (1, 2, 5)
#: A number of repetitions suffices if the spread is at most this much above the smallest.
_SUFFICIENT = 1.05
#: A batch whose variance exceeds the fitted one by this many standard errors departs.
_DEPARTURE_ERRORS = 3.0


@dataclass(frozen=True, slots=True)
class RepetitionSpread:
    """Spread between jobs if only the first repetitions of each job counted, for normal noise."""

    repetitions: Annotated[int, Field("Number of repetitions that count.", 10)]
    jobs: Annotated[int, Field("Number of jobs.", 10)]
    sd_pct: Annotated[float, Field("Standard deviation of the jobs.", 3.0, unit="%")]
    low_pct: Annotated[float, Field("Lower end of its 95 % interval.", 2.0, unit="%")]
    high_pct: Annotated[float, Field("Upper end of its 95 % interval.", 5.0, unit="%")]


def spread_by_repetitions(jobs: Sequence[Sequence[float]]) -> list[RepetitionSpread]:
    """The spread between jobs by the number of repetitions that count, ascending.

    :param jobs: rates of the repetitions of each job, in the order in which they ran
    :returns: empty unless three jobs have repetitions
    """
    logs = [[math.log(it) for it in job] for job in jobs if job]
    if len(logs) < 3:
        return []
    most = min(map(len, logs))
    tried = {step * 10**power for power in range(len(str(most))) for step in _STEPS}
    numbers = sorted(it for it in tried | {most} if it <= most)
    return [_spread([job[:number] for job in logs]) for number in numbers]


def _spread(jobs: Sequence[Sequence[float]]) -> RepetitionSpread:
    from scipy.special import chdtri

    values = sorted(median(job) for job in jobs)
    freedom = len(values) - 1
    mean = math.fsum(values) / len(values)
    squares = math.fsum((it - mean) ** 2 for it in values)
    variances = squares / freedom, *(squares / float(chdtri(freedom, it)) for it in (0.025, 0.975))
    return RepetitionSpread(len(jobs[0]), len(values), *(100 * math.sqrt(it) for it in variances))


def sufficient_repetitions(spreads: Sequence[RepetitionSpread]) -> int | None:
    """The smallest number of repetitions whose spread is within 5 % of the smallest spread."""
    if not spreads:
        return None
    bound = _SUFFICIENT * min(it.sd_pct for it in spreads)
    return min(it.repetitions for it in spreads if it.sd_pct <= bound)


def repetition_families(
    targets: Sequence[SeriesSettings], others: Sequence[SeriesSettings]
) -> list[dict[int, str]]:
    """Series that differ from one of the targets in the number of repetitions only.

    :returns: comparison keys by number of repetitions, at least two in each family
    """
    families: dict[str, dict[int, str]] = {}
    wanted = {_alike(it) for it in targets}
    for series in sorted(others, key=lambda it: it.comparison_key):
        number = next((series.parameters.get(it) for it in _REPETITIONS), None)
        if (alike := _alike(series)) in wanted and isinstance(number, int) and number > 0:
            families.setdefault(alike, {}).setdefault(number, series.comparison_key)
    return [dict(sorted(it.items())) for it in families.values() if len(it) > 1]


def _alike(series: SeriesSettings) -> str:
    """The common key of the series of one family."""
    parameters = {k: v for k, v in sorted(series.parameters.items()) if k not in _REPETITIONS}
    place = (series.indicator, series.script_sha256, series.device, series.unit)
    return repr((*place, parameters, series.hardware_digest))


@dataclass(frozen=True, slots=True)
class RepetitionBatch:
    """Jobs of one stack with one number of repetitions.

    :param duration_s: mean time of a whole job, s; ``None`` if unknown
    """

    label: Annotated[str, Field("Name of the batch.", "500 repetitions")]
    repetitions: Annotated[int, Field("Repetitions of a job.", 500)]
    jobs: Annotated[int, Field("Number of jobs.", 296)]
    median: Annotated[float, Field("Median rate.", 293.7)]
    mean: Annotated[float, Field("Mean rate.", 288.3)]
    sd: Annotated[float, Field("Standard deviation of the rates.", 19.6)]
    duration_s: float | None = None

    @property
    def cv(self) -> Annotated[float, Field("Coefficient of variation.", 0.07)]:
        """Standard deviation divided by the mean."""
        return self.sd / self.mean


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedBatch(RepetitionBatch):
    """One batch compared with the batch of the smallest standard deviation, by an F interval.

    :param departs: whether its variance exceeds the fitted one by more than three standard errors
    """

    ratio: Annotated[float, unbounded("Standard deviation divided by the smallest.", 1.1)]
    ratio_low: Annotated[float, Field("Lower end of its 95 % interval.", 0.96)]
    ratio_high: Annotated[float, unbounded("Upper end of its 95 % interval.", 1.21)]
    fitted_sd: Annotated[float, Field("Standard deviation that repetitions explain.", 20.9)]
    departs: Annotated[bool, Field("Whether the batch varies more than repetitions explain.")]


@dataclass(frozen=True, slots=True)
class BatchReport:
    """Which number of repetitions suffices, from batches with different numbers.

    :param label: indicator and stack
    :param unit: of the rates
    :param best: the batch with the smallest standard deviation
    :param sufficient: smallest number of repetitions whose standard deviation cannot be
        distinguished from the smallest
    :param advice: recommendation for the fitted variances; ``None`` if durations are unknown
    """

    label: str
    unit: str
    judgements: tuple[JudgedBatch, ...]
    best: RepetitionBatch
    sufficient: int
    within: float
    between: float
    advice: RepetitionAdvice | None


def batch_report(batches: Sequence[RepetitionBatch], unit: str, label: str = "") -> BatchReport:
    """Judge batches that differ in their repetitions only.

    The model ``sd² = s²_between + s²_within / repetitions`` is fitted to the relative variances,
    each weighted by its precision. A batch that departs from the fit is left out and the rest is
    fitted again, because no number of repetitions explains its variance.

    :param batches: at least two, each with two jobs or more and positive standard deviations
    """
    ordered = sorted(batches, key=lambda it: (it.repetitions, it.label))
    best = min(ordered, key=lambda it: (it.sd, it.repetitions))
    within, between, kept = _fitted(ordered)
    smallest = Variance(best.sd**2, best.jobs - 1)
    judgements = []
    for batch in ordered:
        ratio = variance_ratio(Variance(batch.sd**2, batch.jobs - 1), smallest)
        fitted = math.sqrt(between + within / batch.repetitions) * batch.mean
        judgements.append(
            JudgedBatch(
                **asdict(batch), ratio=ratio.ratio, ratio_low=ratio.low, ratio_high=ratio.high,
                fitted_sd=fitted, departs=batch not in kept,
            )
        )  # fmt: skip
    alike = (it for it in judgements if it.ratio_low <= 1 or it.sd == best.sd)
    sufficient = min(it.repetitions for it in alike)
    costs = _costs(ordered)
    advice = None if costs is None else repetition_advice(within, between, *costs)
    return BatchReport(label, unit, tuple(judgements), best, sufficient, within, between, advice)


def _fitted(batches: Sequence[RepetitionBatch]) -> tuple[float, float, Sequence[RepetitionBatch]]:
    """Variance within and between jobs, and the batches that the fit explains."""
    kept = list(batches)
    while True:
        within, between = _fit(kept)
        scores = [_score(batch, within, between) for batch in kept]
        worst = max(range(len(kept)), key=lambda i: scores[i])
        if scores[worst] <= _DEPARTURE_ERRORS or len(kept) <= 2:
            return within, between, kept
        # A batch with too much variance pulls the fit, so candidates are tried one after another.
        trials = []
        for i in range(len(kept)):
            rest = [it for place, it in enumerate(kept) if place != i]
            inner = _fit(rest)
            trials.append((max(_score(it, *inner) for it in rest), i))
        kept.pop(min(trials)[1])


def _score(batch: RepetitionBatch, within: float, between: float) -> float:
    """Standard errors by which the variance of a batch lies above the fit."""
    expected = between + within / batch.repetitions
    if expected <= 0:
        return math.inf
    return (batch.cv**2 / expected - 1) / math.sqrt(2 / (batch.jobs - 1))


def _fit(batches: Sequence[RepetitionBatch]) -> tuple[float, float]:
    """Weighted least squares of the relative variance on 1 / repetitions; no part is negative."""
    points = [(1 / it.repetitions, it.cv**2, (it.jobs - 1) / (2 * it.cv**4)) for it in batches]
    total = math.fsum(w for _, _, w in points)
    x_mean = math.fsum(w * x for x, _, w in points) / total
    y_mean = math.fsum(w * y for _, y, w in points) / total
    spread = math.fsum(w * (x - x_mean) ** 2 for x, _, w in points)
    slope = 0.0
    if spread > 0:
        slope = math.fsum(w * (x - x_mean) * (y - y_mean) for x, y, w in points) / spread
    within = max(0.0, slope)
    between = y_mean - within * x_mean
    if between < 0:  # all variance comes from repetitions
        squares = math.fsum(w * x * x for x, _, w in points)
        return math.fsum(w * x * y for x, y, w in points) / squares, 0.0
    return within, between


def _costs(batches: Sequence[RepetitionBatch]) -> tuple[float, float] | None:
    """Seconds of a job before its repetitions, and of a repetition, from the two ends."""
    timed = [(it.repetitions, it.duration_s) for it in batches if it.duration_s is not None]
    if len({repetitions for repetitions, _ in timed}) < 2:
        return None
    (fewest, first_s), (most, last_s) = timed[0], timed[-1]
    each = (last_s - first_s) / (most - fewest)
    start = first_s - each * fewest
    return (start, each) if each > 0 and start > 0 else None
