"""The jobs, turns, runs or hosts that an undetermined comparison lacks.

The observed difference is partly due to chance. So the prediction for further jobs starts from
likely true differences: no difference, or a difference of the size that the other comparisons of
the series suggest.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from adviser.scoring.effects import Effects
from adviser.scoring.estimates import Estimate
from adviser.scoring.lazy_numpy import BoolArray, FloatArray, np
from adviser.scoring.samples import MIN_JOBS
from adviser.scoring.verdicts import none_level
from model.text import counted, duration_text, two_digits

#: Shares of comparisons without any difference; equally likely a priori.
NONE_SHARES = (0.1, 0.5, 0.9)

#: Standard deviations of true differences, natural log; equally likely a priori.
EFFECT_SDS = (0.02, 0.05, 0.1)

#: Planned chance of a verdict (Cohen 1988).
POWER = 0.8
#: Planned chance of a verdict if :data:`POWER` is out of reach.
EVEN = 0.5

#: Minimum standard error, for readings without any spread.
_SMALLEST = 1e-9


@dataclass(frozen=True, slots=True)
class EffectPrior:
    """A mixture of "no difference" and normal distributions, one for each of :data:`EFFECT_SDS`.

    :param none: probability of no difference
    :param sizes: probability of each standard deviation; with ``none`` they add up to 1
    """

    none: float
    sizes: tuple[float, ...]


def effect_prior(effects: Effects) -> EffectPrior:
    """Estimate the distribution of true differences from all comparisons of one series.

    The method is empirical Bayes with a spike at zero (Johnstone & Silverman 2004,
    doi:10.1214/009053604000000030), on a grid that prevents a single comparison from deciding
    alone.

    :param effects: effects of one series; those with an unknown error are ignored
    """
    from scipy.special import xlogy  # NumPy's logarithms differ in the last bit between processors

    d, error = _known(effects)
    shares, sds = np.meshgrid(NONE_SHARES, EFFECT_SDS, indexing="ij")
    log_weight = np.zeros(shares.shape)
    for place in np.argsort(np.abs(d) / error, kind="stable"):
        none = _density(d[place], error[place])
        different = _density(d[place], np.hypot(error[place], sds))
        log_weight += xlogy(1.0, shares * none + (1 - shares) * different)
    weight = _exp(log_weight - log_weight.max())
    weight /= math.fsum(weight.ravel())
    sizes = (1 - shares) * weight
    return EffectPrior(
        math.fsum((weight * shares).ravel()), tuple(math.fsum(column) for column in sizes.T)
    )


@dataclass(frozen=True, slots=True)
class Outlook:
    """The number of further jobs per arm that makes a verdict likely, one entry per comparison.

    :param more: further jobs; 0 if no number up to 1,000 makes a verdict likely
    :param chance: chance that these settle it as faster or slower, within [0, 1]
    """

    more: FloatArray
    chance: FloatArray


@dataclass(frozen=True, slots=True)
class OpenEffects:
    """Comparisons without a verdict, one entry each.

    :param effects: their effects so far, with finite errors
    :param so_far: number of pairs, runs, batches or hosts so far
    :param log_margin: ``ln(1 + δ)``
    :param own_freedom: see :func:`adviser.scoring.verdicts.none_level`
    :param alpha: share of α for each
    """

    effects: Effects
    so_far: FloatArray
    log_margin: FloatArray
    own_freedom: FloatArray
    alpha: FloatArray

    def with_more(self, more: FloatArray, prior: EffectPrior) -> tuple[FloatArray, FloatArray]:
        """The chances of a difference and of equivalence after further jobs.

        :param more: numbers of further jobs, in the unit of ``so_far``; a row per comparison
        """
        d, error = (it[:, None] for it in _known(self.effects))
        growth = (self.so_far[:, None] + more) / self.so_far[:, None]
        later = np.maximum(self.effects.standard_error[:, None], _SMALLEST) / np.sqrt(growth)
        beyond, within = self._limits(later, growth)
        # The later estimate is the weighted mean of past and future jobs.
        kept = 1 / growth
        different, equal = np.zeros(later.shape), np.zeros(later.shape)
        for chance, mean, variance in _posterior(d, error, prior):
            expected = kept * d + (1 - kept) * mean
            moves = np.sqrt((1 - kept) ** 2 * variance + error**2 * kept * (1 - kept))
            above = _upper((beyond - expected) / moves) + _upper((beyond + expected) / moves)
            inside = 1 - _upper((within - expected) / moves) - _upper((within + expected) / moves)
            different += chance * above
            equal += chance * np.where(within > 0, np.maximum(inside, 0.0), 0.0)
        return different, equal

    def settled_size(self, more: FloatArray, prior: EffectPrior) -> FloatArray:
        """The expected size of a true difference that further jobs settle, natural log.

        A true difference that stays open counts as zero, and one that is settled with the wrong
        sign counts as negative.

        :param more: as for :meth:`with_more`
        """
        d, error = (it[:, None] for it in _known(self.effects))
        growth = (self.so_far[:, None] + more) / self.so_far[:, None]
        later = np.maximum(self.effects.standard_error[:, None], _SMALLEST) / np.sqrt(growth)
        beyond, _ = self._limits(later, growth)
        kept = 1 / growth
        size = np.zeros(later.shape)
        for chance, mean, variance in _posterior(d, error, prior):
            expected = kept * d + (1 - kept) * mean
            moves = np.sqrt((1 - kept) ** 2 * variance + error**2 * kept * (1 - kept))
            above, below = (beyond - expected) / moves, (beyond + expected) / moves
            # The partial means of a bivariate normal distribution: the true difference and the
            # later estimate, whose covariance is (1 - kept) times the variance.
            shared = (1 - kept) * variance / moves
            bells = (_exp(-0.5 * above**2) + _exp(-0.5 * below**2)) / math.sqrt(2 * math.pi)
            size += chance * (mean * (_upper(above) - _upper(below)) + shared * bells)
        return size

    def _limits(self, error: FloatArray, growth: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Two bounds of ``|d|``: a difference is above the first, equivalence below the second."""
        from scipy.special import stdtrit  # slow, and needed only where something was measured

        freedom = np.maximum(self.effects.degrees_of_freedom[:, None] * growth, 1.0)
        margin, alpha = self.log_margin[:, None], self.alpha[:, None]
        alone = stdtrit(freedom, 1 - alpha) * error
        # Both signs share α if the error is large compared with δ.
        other_sign = _exp(-2 * (margin + alone) * margin / error**2)
        beyond = margin + stdtrit(freedom, 1 - alpha / (1 + other_sign)) * error
        none = none_level(self.own_freedom[:, None] * growth, alpha)
        none = stdtrit(freedom, 1 - none / 2) * error
        return np.maximum(beyond, none), margin - alone


def outlook(comparisons: OpenEffects, prior: EffectPrior) -> Outlook:
    """The smallest number of further jobs that gives a verdict with a chance of :data:`POWER`.

    If no number reaches that chance, the smallest number that gives a verdict with a chance of
    :data:`EVEN`.
    """
    count = len(comparisons.so_far)
    # Numbers of further jobs that are considered.
    steps = np.unique(np.concatenate([np.arange(1, 21), np.geomspace(21, 1000, 24).round()]))
    different, equal = comparisons.with_more(np.broadcast_to(steps, (count, len(steps))), prior)
    any_verdict = different + equal
    likely = any_verdict >= POWER
    likely |= ~likely.any(axis=1, keepdims=True) & (any_verdict >= EVEN)
    first = np.argmax(likely, axis=1)
    reached = likely.any(axis=1)
    rows = np.arange(count)
    return Outlook(
        np.where(reached, steps[first], 0.0), np.where(reached, different[rows, first], 0.0)
    )


def _posterior(
    d: FloatArray, error: FloatArray, prior: EffectPrior
) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
    """Probability, mean and variance of the true difference for each part of the mixture."""
    parts = [(prior.none * _density(d, error), np.zeros(d.shape), np.zeros(d.shape))]
    for chance, sd in zip(prior.sizes, EFFECT_SDS, strict=True):
        kept = sd**2 / (sd**2 + error**2)
        parts.append((chance * _density(d, np.hypot(error, sd)), kept * d, kept * error**2))
    total = np.add.reduce([chance for chance, *_ in parts])
    return [(chance / total, mean, variance) for chance, mean, variance in parts]


def _known(effects: Effects) -> tuple[FloatArray, FloatArray]:
    """The known effects with their errors, which are widened for few degrees of freedom."""
    known = np.isfinite(effects.d) & np.isfinite(effects.standard_error)
    freedom = np.maximum(effects.degrees_of_freedom[known], 3.0)
    error = effects.standard_error[known] * np.sqrt(freedom / (freedom - 2))
    return effects.d[known], np.maximum(error, _SMALLEST)


def _density(d: FloatArray, sd: FloatArray) -> FloatArray:
    return np.asarray(_exp(-0.5 * (d / sd) ** 2) / sd + 1e-300)


# NumPy's exponentials differ in the last bit between processors.
def _exp(x: FloatArray) -> FloatArray:
    from scipy.special import exp2

    return np.asarray(exp2(x / math.log(2)))


def _upper(z: FloatArray) -> FloatArray:
    from scipy.special import ndtr  # slow, and needed only where something was measured

    return np.asarray(ndtr(-z))


class Need(StrEnum):
    """Needs of an undetermined comparison. The values are stored; never rename them."""

    #: More jobs: pairs that run in turns, or runs of one job each.
    JOBS = "jobs"
    #: Jobs in turns, or more runs, because the spread between runs is unknown.
    TURNS = "turns"
    #: More runs, each with one job or more.
    RUNS = "runs"
    #: Jobs on the target.
    HERE = "here"
    #: Jobs on a host that both stacks use, or on more hosts.
    HOSTS = "hosts"
    #: More than 1,000 jobs: the difference is too close to δ, or the jobs vary too much.
    MARGIN = "margin"
    #: Longer repetitions or a finer clock: the readings do not vary.
    CLOCK = "clock"


#: A comparison that needs longer than a night, s, is not settled here.
NIGHT_S = 8 * 3600.0
#: If two stacks differ by less, an open comparison is too close to matter; else it is too noisy.
CLOSE_PCT = 5.0
#: A larger bound, per cent, says nothing.
_MOST_PCT = 100.0
#: Duration of a job if it is unknown, s.
_JOB_S = 60.0


class OpenComparison(Protocol):
    """A comparison, with the fields that determine what would settle it."""

    @property
    def needs(self) -> Need | None: ...
    @property
    def hosts(self) -> int | None: ...
    @property
    def jobs_missing(self) -> int: ...
    @property
    def baseline_jobs_missing(self) -> int: ...
    @property
    def job_s(self) -> float | None: ...
    @property
    def interval_low_pct(self) -> float: ...
    @property
    def interval_high_pct(self) -> float: ...


def settling_seconds(comparison: OpenComparison) -> float:
    """How long the missing jobs take, s; infinite if no number of jobs settles the comparison.

    A job of unknown duration counts as a minute.
    """
    if comparison.needs in (Need.MARGIN, Need.CLOCK):
        return math.inf
    each = max(comparison.jobs_missing, comparison.baseline_jobs_missing)
    jobs = comparison.jobs_missing + comparison.baseline_jobs_missing
    if comparison.needs is Need.TURNS or not each:
        jobs = 2 * MIN_JOBS
    return jobs * (comparison.job_s or _JOB_S)


def can_settle(comparison: OpenComparison) -> bool:
    """Whether a night is likely to settle a comparison, or to run the first jobs that it lacks."""
    few = max(comparison.jobs_missing, comparison.baseline_jobs_missing) <= MIN_JOBS
    seconds = settling_seconds(comparison)
    return seconds <= NIGHT_S or (few and math.isfinite(seconds))


def unsettleable_text(bound_pct: float, noise: str = "") -> str:
    """Why a comparison cannot be settled in a night, with the bound of the difference.

    :param bound_pct: the largest difference that the 95 % interval contains; infinite if unknown
    :param noise: spread of the jobs, for people

    >>> unsettleable_text(3.21)
    'too close to matter here: any difference is smaller than 3.2 %'
    """
    bound = f"any difference is smaller than {two_digits(bound_pct)} %"
    if bound_pct <= CLOSE_PCT:
        return f"too close to matter here: {bound}"
    known = [noise, bound if bound_pct <= _MOST_PCT else "the difference may have any size"]
    return (
        f"too noisy here: {', and '.join(filter(None, known))}. Free the machine, or make each run"
        " longer"
    )


#: Commands that run missing jobs; ``A.json`` and ``B.json`` are the specifications of two stacks.
INSPECT = "thoth inspect A.json B.json --jobs {jobs} --ingest"
COMPARE = "thoth compare OLD NEW --ingest -- COMMAND"
#: The same for a comparison of a pack.
AGAIN = "thoth pack again PACK --between OLD NEW --jobs {jobs}"


def settling_text(
    comparison: OpenComparison, disturbed: int = 0, command: str | None = INSPECT
) -> str:
    """The jobs that settle a comparison and their duration here; empty if it is settled.

    One that takes longer than a night is too close to matter, or too noisy, with the bound.

    :param disturbed: number of unstable jobs, if there are no pairs for that reason
    :param command: the command that runs ``{jobs}`` jobs; ``None`` to name none
    """
    need = comparison.needs
    if need is None:
        return ""
    if not can_settle(comparison):
        ends = comparison.interval_low_pct, comparison.interval_high_pct
        clock = "its clock is too coarse" if need is Need.CLOCK else ""
        return unsettleable_text(math.inf if clock else max(map(abs, ends)), clock)
    counts = comparison.jobs_missing, comparison.baseline_jobs_missing
    each = max(*counts) or MIN_JOBS
    what = more_jobs(*counts, "run" if need is Need.RUNS else "job")
    if need is Need.TURNS or not what:
        each, what = MIN_JOBS, f"{MIN_JOBS} jobs each"
    where = {
        Need.TURNS: " in turns",
        Need.RUNS: ", or jobs in turns",
        Need.HERE: " on this hardware",
        Need.HOSTS: " on more hosts" if comparison.hosts else " on one host",
    }.get(need, "")
    left_out = f" ({counted(disturbed, 'disturbed job')} left out)" if disturbed else ""
    what = f"{what}{where}{left_out if need is Need.JOBS else ''}"
    text = f"{what}, about {duration_text(settling_seconds(comparison))}"
    if command is None:
        return text
    assumed = "" if comparison.job_s else " at a minute a job"
    return f"{text}{assumed}, with `{command.replace('{jobs}', str(each))}`"


def more_jobs(jobs: int, baseline_jobs: int, noun: str = "job") -> str:
    """The number of missing jobs as text; empty if no job is missing.

    >>> more_jobs(1200, 1200), more_jobs(1, 2)
    ('1,200 more jobs each', '1 more job, 2 more of the baseline')
    """
    if jobs and jobs == baseline_jobs:
        return f"{counted(jobs, f'more {noun}')} each"
    parts = [counted(jobs, f"more {noun}")] if jobs else []
    if baseline_jobs:
        parts.append(f"{baseline_jobs} more of the baseline")
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class SampleNeed:
    """The jobs that a comparison needs for a verdict.

    :param need: ``None`` if it is settled
    :param jobs: further jobs of the candidate that make a verdict likely, each in a run of its own
        for :attr:`Need.RUNS`; 0 if jobs do not help
    :param baseline_jobs: the same for the baseline
    :param chance: chance that these jobs settle it as faster or slower; 0 if too little is known
    """

    need: Need | None = None
    jobs: int = 0
    baseline_jobs: int = 0
    chance: float = 0.0


_NO_NEED = SampleNeed()


@dataclass(frozen=True, slots=True)
class JudgedFamily:
    """All comparisons of one answer after judging, one entry each.

    :param estimates: their estimates
    :param effects: their effects, with wider errors if measured elsewhere
    :param planned: whether to plan further jobs; false with a verdict
    :param elsewhere: whether each was measured elsewhere than on the target, or by others
    :param log_margin: ``ln(1 + δ)``
    :param alpha: share of α for each
    :param series: number of the series of each; comparisons of one series inform each other
    """

    estimates: Sequence[Estimate]
    effects: Effects
    planned: BoolArray
    elsewhere: BoolArray
    log_margin: FloatArray
    alpha: FloatArray
    series: Sequence[int]

    def needs(self) -> list[SampleNeed]:
        """The needs of each comparison."""
        needs = [self._without_jobs(i) for i in range(len(self.estimates))]
        by_series: dict[int, list[int]] = defaultdict(list)
        for i, number in enumerate(self.series):
            by_series[number].append(i)
        for places in by_series.values():
            still_open = [i for i in places if needs[i] is None]
            if still_open:
                known = [i for i in places if self.estimates[i].tested]
                for i, need in self._with_jobs(still_open, known):
                    needs[i] = need
        return [it or _NO_NEED for it in needs]

    def _without_jobs(self, i: int) -> SampleNeed | None:
        """The need of a comparison; ``None`` if a prediction must decide."""
        estimate = self.estimates[i]
        if not self.planned[i]:
            return _NO_NEED
        if self.elsewhere[i]:
            return SampleNeed(Need.HERE, MIN_JOBS, MIN_JOBS)
        if estimate.hosts == 0:
            return SampleNeed(Need.HOSTS, MIN_JOBS, MIN_JOBS)
        enough = min(estimate.jobs, estimate.baseline_jobs) >= MIN_JOBS
        if enough and 2 * estimate.clock_variance >= estimate.effect.standard_error**2:
            return SampleNeed(Need.CLOCK)
        return None if estimate.tested else _first_jobs(estimate)

    def _with_jobs(
        self, places: Sequence[int], known: Sequence[int]
    ) -> list[tuple[int, SampleNeed]]:
        """Predict further pairs, runs or hosts for the open comparisons of one series."""
        chosen = np.array(places)
        comparisons = OpenEffects(
            self.effects.taken(chosen),
            np.array([_units(self.estimates[i]) for i in places], dtype=np.float64),
            self.log_margin[chosen],
            np.array([self.estimates[i].own_freedom for i in places]),
            self.alpha[chosen],
        )
        seen = outlook(comparisons, effect_prior(self.effects.taken(known)))
        return [
            (i, _further(self.estimates[i], int(seen.more[n]), float(seen.chance[n])))
            for n, i in enumerate(places)
        ]


def _units(estimate: Estimate) -> int:
    """The number of pairs or runs so far; if batches or hosts disagree, their number."""
    if not estimate.hosts_agree:
        return estimate.hosts or 1
    if estimate.batches_differ:
        return estimate.batches
    return min(estimate.runs, estimate.baseline_runs)


def _further(estimate: Estimate, more: int, chance: float) -> SampleNeed:
    if not more:
        return SampleNeed(Need.MARGIN)
    if not estimate.hosts_agree:
        return SampleNeed(Need.HOSTS, MIN_JOBS * more, MIN_JOBS * more, chance)
    if estimate.batches_differ:
        return SampleNeed(Need.RUNS, more, more, chance)
    so_far = estimate.runs, estimate.baseline_runs
    needed = min(so_far) + more
    clustered = not estimate.pairs and so_far != (estimate.jobs, estimate.baseline_jobs)
    ours, theirs = (max(0, needed - each) for each in so_far)
    return SampleNeed(Need.RUNS if clustered else Need.JOBS, ours, theirs, chance)


def _first_jobs(estimate: Estimate) -> SampleNeed:
    """The need of a comparison before its first verdict."""
    few = max(0, MIN_JOBS - estimate.jobs), max(0, MIN_JOBS - estimate.baseline_jobs)
    if (estimate.runs, estimate.baseline_runs) == (estimate.jobs, estimate.baseline_jobs) and any(
        few
    ):
        return SampleNeed(Need.JOBS, *few)
    # Disturbed jobs leave too few pairs, or no job at all.
    if estimate.turns is not None or not (estimate.jobs and estimate.baseline_jobs):
        pairs = MIN_JOBS - (estimate.turns or 0)
        return SampleNeed(Need.JOBS, pairs, pairs)
    # Pairs need new jobs of both stacks; existing jobs do not count.
    return SampleNeed(Need.TURNS, MIN_JOBS, MIN_JOBS)
