"""Variances of jobs, runs and turns, and how the stacks of a series share these variances.

**Runs.** A run is one inspection of one stack. At each time, the state of the machine is different
(temperature, neighbours, page placement), so ten jobs of one night are far more alike than ten jobs
of ten nights. Stacks that ran in turns share that state, so it cancels in their difference. If
stacks did not run in turns, each run counts as one value, the mean of its jobs. The error is
computed from differences between runs.

**Moderation.** Five jobs estimate their own variance badly, and a variance that is small by luck
leads to a false claim. The stacks of one series on one host mostly vary alike. So each variance is
pulled towards their shared variance (empirical Bayes; Smyth 2004, doi:10.2202/1544-6115.1027). A
stack that varies more than the others keeps its own variance.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from adviser.scoring.effects import Effects, Moments, Variance, welch_effects
from adviser.scoring.lazy_numpy import FloatArray, IntArray, np
from adviser.scoring.samples import MIN_JOBS, JobPlace, in_batches

#: Variances are shared only by more stacks than this. With fewer, the prior was too confident in
#: simulations where one stack varies three times as much as the others.
FEW_STACKS = 5

#: Maximum degrees of freedom of the prior, as a share of those of the other stacks.
MAX_SHARE = 0.3

#: A variance above this quantile of its F distribution is not pulled towards the prior.
OUTLIER_QUANTILE = 0.95

#: Lower limit of variances, as a share of their median: below it, the clock's resolution hides
#: differences.
_SMALLEST_SHARE = 1e-5


@dataclass(frozen=True, slots=True)
class VariancePrior:
    """The variance shared by the stacks of a series.

    :param variance: variance of one job or run, squared natural logs; ``nan`` if unknown
    :param freedom: its degrees of freedom; 0 if unknown
    """

    variance: float = math.nan
    freedom: float = 0.0


NO_PRIOR = VariancePrior()


def variance_prior(variances: Sequence[Variance]) -> VariancePrior:
    """Fit a scaled inverse χ² distribution to the variances of several stacks.

    The fit uses the moments of log variances, as in limma (Smyth 2004, section 6.2). The degrees of
    freedom are limited, because variances estimated from shared turns are not independent.

    :param variances: one per stack, in any order
    :returns: :data:`NO_PRIOR` for :data:`FEW_STACKS` stacks or fewer
    """
    known = [it for it in variances if it.freedom > 0 and math.isfinite(it.value)]
    if len(known) <= FEW_STACKS:
        return NO_PRIOR
    middle = median(it.value for it in known)
    if middle <= 0.0:
        return NO_PRIOR
    from scipy.special import digamma, polygamma  # slow, and needed only for many stacks

    known.sort(key=lambda it: (it.value, it.freedom))
    values = np.array([max(it.value, _SMALLEST_SHARE * middle) for it in known])
    half = np.array([it.freedom for it in known]) / 2
    logs = np.array([math.log(it) for it in values]) - digamma(half)
    logs += np.array([math.log(it) for it in half])
    mean = math.fsum(logs) / len(logs)
    between = math.fsum((logs - mean) ** 2) / (len(logs) - 1)
    excess = between - math.fsum(polygamma(1, half)) / len(half)
    if excess > 0:
        prior_half = _inverse_trigamma(excess)
        variance = math.exp(mean + float(digamma(prior_half)) - math.log(prior_half))
    else:
        prior_half = math.inf
        variance = math.fsum(values) / len(values)
    most = MAX_SHARE * (len(known) - FEW_STACKS) * 2 * math.fsum(half) / len(half)
    return VariancePrior(variance, min(2 * prior_half, most))


def pair_prior(
    prior: VariancePrior, arms: tuple[Variance | None, Variance | None], shares: tuple[float, float]
) -> VariancePrior:
    """The prior for the variance of differences between two stacks that ran in turns.

    An arm that varies significantly more than the others uses its own variance.

    :param arms: the variance of each stack alone
    :param shares: for each arm, the mean of one over its number of jobs in a turn
    """
    if not prior.freedom:
        return NO_PRIOR
    parts = [
        (share * variance, freedom)
        for share, (variance, freedom) in zip(shares, (_arm(prior, it) for it in arms), strict=True)
    ]
    total = math.fsum(variance for variance, _ in parts)
    if not total:
        return NO_PRIOR
    # Satterthwaite (1946, doi:10.2307/3002019); shares of the total avoid underflow.
    freedom = 1 / math.fsum((variance / total) ** 2 / freedom for variance, freedom in parts)
    return VariancePrior(total, freedom)


def _arm(prior: VariancePrior, own: Variance | None) -> tuple[float, float]:
    from scipy.special import fdtri  # slow, and needed only for many stacks

    if own is not None:
        limit = float(fdtri(own.freedom, prior.freedom, OUTLIER_QUANTILE))
        if own.value > limit * prior.variance:
            return own.value, float(own.freedom)
    return prior.variance, prior.freedom


def moderate_variances(
    variance: FloatArray,
    freedom: FloatArray,
    priors: Sequence[VariancePrior],
    quantile: float = OUTLIER_QUANTILE,
) -> tuple[FloatArray, FloatArray]:
    """Pull each variance towards its prior, unless the variance is far above the prior.

    :param variance: one per comparison; ``nan`` is unchanged
    :param freedom: their degrees of freedom
    :param priors: one per comparison
    :param quantile: of the prediction of the prior, from which a variance is far above
    :returns: moderated variances and their degrees of freedom

    >>> prior = VariancePrior(2.0, 4.0)
    >>> value, freedom = moderate_variances(np.array([1.0]), np.array([4.0]), [prior])
    >>> value.tolist(), freedom.tolist()
    ([1.5], [8.0])
    """
    theirs = np.array([it.freedom for it in priors], dtype=np.float64)
    if not theirs.any():
        return variance, freedom
    from scipy.special import fdtri  # slow, and needed only for many stacks

    prior = np.array([it.variance if it.freedom else 0.0 for it in priors], dtype=np.float64)
    own = np.maximum(freedom, 1.0)
    limit = fdtri(own, np.where(theirs > 0, theirs, 1.0), quantile)
    shared = (theirs > 0) & (freedom > 0) & ~(variance > limit * prior)
    with np.errstate(divide="ignore", invalid="ignore"):
        mixed = (theirs * prior + freedom * variance) / (theirs + freedom)
    return np.where(shared, mixed, variance), np.where(shared, theirs + freedom, freedom)


def _inverse_trigamma(value: float) -> float:
    """Solve ``trigamma(x) = value`` by Newton's method (Smyth 2004, appendix)."""
    from scipy.special import polygamma

    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x


#: Maximum number of iterations of the two-way fit; complete turns need one.
_SWEEPS = 25


@dataclass(frozen=True, slots=True)
class TurnResiduals:
    """The residuals of the jobs of one host, without the effects of turns and stacks.

    A cell is the jobs of one stack in one turn. Cells are sorted by stack, then by time.

    :param stacks: digest of each stack
    :param stack: of each cell
    :param batch: of each cell; see :func:`adviser.scoring.samples.in_batches`
    :param values: mean of each cell
    :param weights: by which a squared value is multiplied to give the variance of one job
    """

    stacks: tuple[str, ...]
    stack: IntArray
    batch: IntArray
    values: FloatArray
    weights: FloatArray


def turn_residuals(
    jobs: Mapping[str, Iterable[tuple[JobPlace, float]]],
) -> dict[str, TurnResiduals]:
    """Fit the effects of turns and stacks by alternating means (an additive two-way fit).

    Turns with a single stack are ignored.

    :param jobs: by stack, the place and the log rate of each job, in a fixed order
    :returns: by host
    """
    cells: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    turns: dict[str, dict[tuple[str, str], list[JobPlace]]] = defaultdict(lambda: defaultdict(list))
    for stack, placed in jobs.items():
        for place, log_rate in placed:
            if place.host is not None and place.block is not None:
                cells[place.host][stack, place.block].append(log_rate)
                turns[place.host][place.host, place.block].append(place)
    return {
        host: residuals
        for host in sorted(cells)
        if (residuals := _of_one_host(cells[host], turns[host])) is not None
    }


def _of_one_host(
    cells: Mapping[tuple[str, str], Sequence[float]],
    turns: Mapping[tuple[str, str], Sequence[JobPlace]],
) -> TurnResiduals | None:
    in_turn: dict[str, int] = defaultdict(int)
    for _, block in cells:
        in_turn[block] += 1
    batches = in_batches(turns)
    batch_of = {block: n for n, batch in enumerate(batches) for _, block in batch}
    blocks = {block: n for n, (_, block) in enumerate(it for batch in batches for it in batch)}
    shared = sorted(
        (key for key in cells if in_turn[key[1]] > 1), key=lambda it: (it[0], blocks[it[1]])
    )
    if not shared:
        return None
    stacks = {stack: place for place, stack in enumerate(sorted({key[0] for key in shared}))}
    stack_of = np.array([stacks[key[0]] for key in shared])
    block_of = np.array([blocks[key[1]] for key in shared])
    weight = np.array([float(len(cells[key])) for key in shared])
    mean = np.array([math.fsum(cells[key]) / len(cells[key]) for key in shared])
    residual = _residuals(mean, weight, stack_of, block_of)
    total = np.bincount(block_of, weight)[block_of]
    return TurnResiduals(
        tuple(stacks),
        stack_of,
        np.array([batch_of[key[1]] for key in shared]),
        residual,
        # Corrected for the stack's own share of the mean of the turn, and scaled to one job.
        total * weight / (total - weight),
    )


def _residuals(
    values: FloatArray, weight: FloatArray, stack: IntArray, block: IntArray
) -> FloatArray:
    per_stack, per_block = np.bincount(stack, weight), np.maximum(np.bincount(block, weight), 1.0)
    left = values
    for _ in range(_SWEEPS):
        left = left - (np.bincount(block, weight * left) / per_block)[block]
        shift = np.bincount(stack, weight * left) / per_stack
        left = left - shift[stack]
        if float(np.abs(shift).max()) < 1e-12:
            break
    return left


#: Minimum degrees of freedom of the variance between runs to judge arms of fewer than five runs by
#: it: eleven runs of one stack, or about five runs of each of three stacks.
MIN_FREEDOM = 10


@dataclass(frozen=True, slots=True)
class RunSpread:
    """The variance between runs of one stack on one host, over all stacks of a series.

    :param variance: variance of the means of runs, squared natural logs; ``nan`` if no stack ran
        twice
    :param freedom: its degrees of freedom: runs minus stacks
    :param within: variance of jobs within their run; 0 if no run has two jobs
    :param per_run: mean of one over the number of jobs in these runs
    :param prior: shared variance of the stacks, for arms of five runs or more
    """

    variance: float = math.nan
    freedom: int = 0
    within: float = 0.0
    per_run: float = 1.0
    prior: VariancePrior = NO_PRIOR

    @property
    def known(self) -> bool:
        """Whether the variance is known well enough to judge arms of fewer than five runs."""
        return self.freedom >= MIN_FREEDOM


#: The spread if no stack ran twice.
UNKNOWN_SPREAD = RunSpread()


def run_spread(
    log_rates: Sequence[float], runs: Sequence[int], stack_of: Sequence[int]
) -> RunSpread:
    """Variance between runs, pooled over stacks, by analysis of variance of the runs' means.

    Stacks that ran once are ignored. The time is linear in the number of jobs.

    :param runs: for each job, the number of its run, from 0
    :param stack_of: for each run, the number of its stack on its host, from 0

    >>> seen = run_spread([0.0, 2.0, 1.0, 1.0, 1.0, 1.0], [0, 1, 2, 2, 3, 4], [0, 0, 1, 1, 1])
    >>> seen.variance, seen.freedom, seen.per_run
    (0.6666666666666666, 3, 0.9)
    """
    rates, run, stack = np.asarray(log_rates), np.asarray(runs, int), np.asarray(stack_of, int)
    several = np.bincount(stack)[stack] > 1
    freedom = int(several.sum()) - len(np.unique(stack[several]))
    if not freedom:
        return UNKNOWN_SPREAD
    jobs = np.bincount(run)
    means = np.bincount(run, rates) / jobs
    runs_of = np.bincount(stack)
    middles = np.bincount(stack, means) / np.maximum(1, runs_of)
    own_squares = np.bincount(stack, (means - middles[stack]) ** 2)
    squares = float(((means - middles[stack])[several] ** 2).sum())
    inside = several[run]
    inner = int((jobs[several] - 1).sum())
    within = float(((rates - means[run])[inside] ** 2).sum())
    return RunSpread(
        variance=squares / freedom,
        freedom=freedom,
        within=within / inner if inner else 0.0,
        per_run=float((1 / jobs[several]).mean()),
        prior=variance_prior(
            [
                Variance(float(own_squares[i] / (runs_of[i] - 1)), int(runs_of[i] - 1))
                for i in np.flatnonzero(runs_of >= MIN_JOBS)
            ]
        ),
    )


@dataclass(frozen=True, slots=True)
class RunArms:
    """Arms that did not run in turns, one entry per comparison.

    :param means: moments of the means of their runs
    :param jobs: moments of their jobs, as if these were independent
    :param per_run: mean of one over the number of jobs in a run
    """

    means: Moments
    jobs: Moments
    per_run: FloatArray


def run_effects(ours: RunArms, theirs: RunArms, spread: RunSpread) -> Effects:
    """Effects of arms in which each run counts as one observation.

    With five runs per arm, the error is Welch's error of the means of runs, with variances
    moderated by the other stacks of the series. With fewer runs per arm, the error is the root of
    ``S² (1/r_a + 1/r_b)``, where S² is the variance between runs over all stacks of the series. If
    S² is unknown but both arms have two runs, the error is Welch's error. The error of an arm is at
    least that of its jobs alone.

    :returns: an infinite error with zero degrees of freedom if the effect of runs is unknown
    """
    own = welch_effects(ours.means, theirs.means)
    if not spread.known:
        return own
    many = np.minimum(ours.means.jobs, theirs.means.jobs) >= MIN_JOBS
    if spread.prior.freedom:
        own = _moderated(own, ours.means, theirs.means, spread.prior)
    (our_variance, our_freedom), (their_variance, their_freedom) = (
        _shared(it, spread) for it in (ours, theirs)
    )
    # Both arms use the same estimate, so its degrees of freedom count once.
    return Effects(
        own.d,
        np.where(many, own.standard_error, np.sqrt(our_variance + their_variance)),
        np.where(many, own.degrees_of_freedom, np.minimum(our_freedom, their_freedom)),
    )


def _moderated(own: Effects, ours: Moments, theirs: Moments, prior: VariancePrior) -> Effects:
    """The effects, after the variance of each arm was moderated by the same prior."""
    arms = []
    for arm in (ours, theirs):
        own_freedom = np.where(arm.jobs > 1, arm.jobs - 1, 0.0)
        arms.append(moderate_variances(arm.variance, own_freedom, [prior] * len(own_freedom)))
    (our_variance, our_freedom), (their_variance, their_freedom) = arms
    with np.errstate(divide="ignore", invalid="ignore"):
        our_variance, their_variance = our_variance / ours.jobs, their_variance / theirs.jobs
        squared = our_variance + their_variance
        share = our_variance / squared
        freedom = 1 / (share**2 / our_freedom + (1 - share) ** 2 / their_freedom)
        # Both arms use the prior, so its degrees of freedom count once.
        freedom = np.minimum(freedom, prior.freedom + ours.jobs + theirs.jobs - 2)
    usable = np.isfinite(own.standard_error) & (squared > 0) & np.isfinite(freedom)
    return Effects(
        own.d,
        np.where(usable, np.sqrt(np.where(usable, squared, 0.0)), own.standard_error),
        np.where(usable, freedom, own.degrees_of_freedom),
    )


def _shared(arms: RunArms, spread: RunSpread) -> tuple[FloatArray, FloatArray]:
    """The squared error of the mean of each arm, and its degrees of freedom."""
    # Runs with fewer jobs than earlier runs have noisier means.
    more = spread.within * np.maximum(0.0, arms.per_run - spread.per_run)
    with np.errstate(divide="ignore", invalid="ignore"):
        shared = (spread.variance + more) / arms.means.jobs
        alone = arms.jobs.variance / arms.jobs.jobs
    wild = alone > shared  # false where an arm has a single job
    empty = arms.jobs.jobs == 0
    error = np.where(empty, np.inf, np.where(wild, alone, shared))
    freedom = np.where(wild, np.minimum(spread.freedom, arms.jobs.jobs - 1), spread.freedom)
    return error, np.where(empty, 0.0, freedom)
