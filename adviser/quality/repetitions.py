"""Standard deviation against the number of repetitions: which number suffices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Annotated

from adviser.quality.job_statistics import RepetitionAdvice, repetition_advice
from adviser.scoring.effects import Variance, variance_ratio
from model.declared_fields import Field, unbounded
from model.measurements.evidence import SeriesSettings

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
    return [_spread([job[:number] for job in logs]) for number in _numbers(min(map(len, logs)))]


def _numbers(most: int) -> Iterator[int]:
    for power in range(len(str(most))):
        for step in _STEPS:
            if (number := step * 10**power) < most:
                yield number
    yield most


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
    """What series of one family have in common."""
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

    ratio: Annotated[float, unbounded("Standard deviation divided by the smallest one.", 1.1)]
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
    :param sufficient: smallest number of repetitions whose standard deviation cannot be told from
        the smallest
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


def _fitted(
    batches: Sequence[RepetitionBatch],
) -> tuple[float, float, Sequence[RepetitionBatch]]:
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
    timed = [it for it in batches if it.duration_s is not None]
    if len({it.repetitions for it in timed}) < 2:
        return None
    first, last = timed[0], timed[-1]
    assert first.duration_s is not None  # noqa: S101 - chosen above
    assert last.duration_s is not None  # noqa: S101
    each = (last.duration_s - first.duration_s) / (last.repetitions - first.repetitions)
    start = first.duration_s - each * first.repetitions
    return (start, each) if each > 0 and start > 0 else None
