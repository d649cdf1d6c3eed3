"""The posterior over change points: after which release did the rate change, if at all?

The model: the log rate of a job is ``mean + d · (release ≥ change point) + block effect + noise``.
All jobs of a block share a block effect. The mean has a flat prior; the effect ``d``, the noise and
the block effect lie on grids and are summed over, so nothing is estimated in advance. Chib (1998,
doi:10.1016/S0304-4076(97)00115-2) describes Bayesian change points. Each likelihood is that of a
linear model with the mean integrated out, so it is exact.

Outliers would look like steps. Each job therefore has a weight, as in the EM algorithm for
Student's t (Lange, Little & Taylor 1989, doi:10.1080/01621459.1989.10478852).

Dips are stretches of releases with another rate, from one release until a later one reverts it.
Both ends of a series with a dip are equal, so only jobs inside the dip can show it. For each
stretch of measured releases, the effect of a dip there is estimated by generalized least squares;
the noise has Jeffreys' prior, so the error follows Student's t. Unlike for steps, outliers keep
their weight: the only job inside a dip is one.
"""

import itertools
import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from adviser.scoring.effects import Variance
from adviser.scoring.lazy_numpy import FloatArray, IntArray, np

#: Chance of no step before anything is measured.
PRIOR_NONE = 0.5
#: Sizes of a step that the prior allows, as shares of the rate; the smallest is the smallest
#: step of interest. Smaller steps count as none, so that "no step" can be shown with few jobs.
STEP_SIZES = (0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.125, 0.16, 0.2, 0.26, 0.35, 0.5, 0.75, 1.2, 2.5)
#: Standard deviations of the jobs of a block, natural log.
_NOISE = (0.004, 0.006, 0.009, 0.013, 0.018, 0.025, 0.035, 0.05, 0.07, 0.1, 0.15, 0.25, 0.5)
#: Standard deviation of block effects, as a multiple of the noise, and its prior.
BLOCK_EFFECTS = ((0.0, 0.6), (0.7, 0.2), (2.0, 0.2))
#: Block effect and noise of each setting that likelihoods are summed over.
_SETTINGS = [(block, noise) for (block, _), noise in itertools.product(BLOCK_EFFECTS, _NOISE)]
#: Degrees of freedom of the noise: tails heavier than normal, as measured rates have.
_FREEDOM = 5.0
_ROUNDS = 3
#: Chance below which a step is left out of sums.
_NEGLIGIBLE = 1e-6


@dataclass(frozen=True, slots=True)
class MeasuredRate:
    """The result of one job.

    :param release: place of its stack in the series of releases
    :param block: jobs of one block ran close together
    :param log_rate: natural log of the job's rate; ``nan`` if the job failed or was unstable
    :param failed: whether the job has no rate, unlike an unstable job
    """

    release: int
    block: str
    log_rate: float
    failed: bool = False

    @property
    def usable(self) -> bool:
        """Whether comparisons use this job."""
        return math.isfinite(self.log_rate)


@dataclass(frozen=True)
class StepPosterior:
    """The distribution of the change point, given the jobs so far.

    :param releases: places of the stacks that can still be measured, ascending
    :param steps: chance of a step at ``releases[i]``, compared with the release before; the first
        entry is the chance of no step
    :param effect: mean effect of a step at each place, natural log; 0 for the first entry
    :param expected: predicted log rate of each release (column) if the step is at each place (row)
    :param spread: standard deviation of the prediction for the next job, likewise
    :param noise: expected standard deviation of the jobs of a block, natural log
    """

    releases: tuple[int, ...]
    steps: FloatArray
    effect: FloatArray
    expected: FloatArray
    spread: FloatArray
    noise: float

    @property
    def none(self) -> float:
        """The chance that there is no step."""
        return float(self.steps[0])

    @cached_property
    def best(self) -> int:
        """Index of the most probable step, from 1; there are at least two releases."""
        return 1 + int(np.argmax(self.steps[1:]))

    @property
    def best_chance(self) -> float:
        """The chance of the most probable step."""
        return float(self.steps[self.best])

    def pair(self) -> tuple[int, int]:
        """The releases before and after the most probable step."""
        return self.releases[self.best - 1], self.releases[self.best]


def posterior_of(jobs: Sequence[MeasuredRate], releases: Sequence[int]) -> StepPosterior:
    """Return the posterior; jobs of releases that were dropped still count.

    :param jobs: at least one must be usable
    :param releases: ascending, at least two
    """
    usable = [job for job in jobs if job.usable]
    at = np.array([job.release for job in usable])
    columns = np.zeros((len(releases), len(usable)))  # the first row is no step
    columns[1:] = at[None, :] >= np.array(releases[1:])[:, None]
    fit = _Fit(usable, columns, np.ones(len(usable)))
    for _ in range(_ROUNDS):
        fit = _Fit(usable, columns, fit.job_weights())
    return fit.posterior(releases)


class _Fit:
    """The likelihoods of all combinations of step, effect, noise and block effect.

    Axes: step (0 is none), effect, noise and block effect together.

    :param columns: which jobs each step affects; one row per step
    :param known: columns whose coefficients have flat priors, the mean first
    """

    def __init__(
        self,
        jobs: Sequence[MeasuredRate],
        columns: FloatArray,
        weights: FloatArray,
        known: Sequence[FloatArray] = (),
    ) -> None:
        self._rates = np.array([job.log_rate for job in jobs])
        self._columns = columns
        self._known = np.stack(known or [np.ones(len(jobs))], axis=1)
        blocks = np.unique([job.block for job in jobs], return_inverse=True)[1].reshape(-1)
        sizes = np.log1p(np.array(STEP_SIZES))
        self._effects = np.concatenate([-sizes[::-1], sizes])
        same_block = (blocks[:, None] == blocks[None, :]).astype(np.float64)
        likelihoods: list[FloatArray] = []
        levels: list[FloatArray] = []
        mean_errors: list[FloatArray] = []
        for block, prior in BLOCK_EFFECTS:
            covariance = np.diag(1 / weights) + block**2 * same_block
            likelihood, level, mean_error = self._likelihood(covariance)
            likelihoods.append(likelihood + math.log(prior))
            levels.append(level)
            mean_errors.append(mean_error)
        joint = np.concatenate(likelihoods, axis=2)
        # By step, effect, setting and known column; by setting.
        self._levels = np.repeat(np.stack(levels, axis=2), len(_NOISE), axis=2)
        self._mean_errors = np.concatenate(mean_errors)
        joint[0] -= math.log(len(self._effects))  # without a step all effects are the same
        joint[0] += math.log(PRIOR_NONE)
        joint[1:] += math.log((1 - PRIOR_NONE) / (len(columns) - 1) / len(self._effects))
        chances = np.exp(joint - joint.max())
        self._chances = chances / chances.sum()

    def _likelihood(self, covariance: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """By noise, with the known coefficients integrated out.

        :param covariance: if the noise is 1; it grows with the square of the noise, so that one
            factor serves all
        :returns: log likelihood by step, effect and noise; known coefficients by step and effect;
            squared error of the mean by noise
        """
        factor = np.linalg.cholesky(covariance)
        known = np.linalg.solve(factor, self._known)
        rates = np.linalg.solve(factor, self._rates)
        columns = np.linalg.solve(factor, self._columns.T).T
        basis, triangle = np.linalg.qr(known)
        inverse = np.linalg.inv(triangle)
        # Coefficients of the known columns: of the rates, and of each step's column.
        level, share = inverse @ (basis.T @ rates), (columns @ basis) @ inverse.T
        rates = rates - basis @ (basis.T @ rates)
        columns = columns - (columns @ basis) @ basis.T
        squares = (
            rates @ rates
            - 2 * (columns @ rates)[:, None] * self._effects
            + (columns * columns).sum(axis=1)[:, None] * self._effects**2
        )
        levels = level - share[:, None, :] * self._effects[None, :, None]
        noise = np.array(_NOISE)
        free = len(rates) - len(triangle)
        constant = -np.log(np.diag(factor)).sum() - np.log(np.abs(np.diag(triangle))).sum()
        likelihood = constant - free * np.log(noise) - 0.5 * squares[..., None] / noise**2
        return likelihood, levels, (inverse[0] ** 2).sum() * noise**2

    def job_weights(self) -> FloatArray:
        """Expected weight of each job, below 1 for outliers."""
        chances = self._chances
        noise = np.array([noise * math.hypot(1, block) for block, noise in _SETTINGS])
        effects = np.broadcast_to(self._effects[None, :, None], chances.shape)
        weights = np.zeros(len(self._rates))
        # Only combinations with a noticeable chance.
        kept = np.nonzero(chances > 1e-5 * chances.max())
        share = chances[kept]
        level, effect, spread = self._levels[kept], effects[kept], noise[kept[2]]
        for i, rate in enumerate(self._rates):
            fitted = level @ self._known[i] + effect * self._columns[kept[0], i]
            residual = (rate - fitted) / spread
            weight = (_FREEDOM + 1) / (_FREEDOM + residual**2)
            weights[i] = (share * weight).sum() / share.sum()
        return np.asarray(weights, dtype=np.float64)

    def steps(self) -> tuple[FloatArray, FloatArray]:
        """Chance and mean effect of each step."""
        steps = self._chances.sum(axis=(1, 2))
        effects = (self._chances * self._effects[None, :, None]).sum(axis=(1, 2))
        return steps, effects / np.maximum(steps, 1e-300)

    def posterior(self, releases: Sequence[int]) -> StepPosterior:
        """The posterior if each step affects all jobs since one of ``releases``."""
        chances = self._chances
        steps, effect = self.steps()
        conditional = chances / np.maximum(steps, 1e-300)[:, None, None]
        means = self._levels[..., 0]
        noise = np.array([noise**2 * (1 + block**2) for block, noise in _SETTINGS])
        scatter = noise + self._mean_errors
        effects = np.broadcast_to(self._effects[None, :, None], means.shape)
        before = (conditional * means).sum(axis=(1, 2))
        after = (conditional * (means + effects)).sum(axis=(1, 2))
        own = (conditional * scatter).sum(axis=(1, 2))
        before_variance = own + (conditional * (means - before[:, None, None]) ** 2).sum(
            axis=(1, 2)
        )
        shifted = means + effects - after[:, None, None]
        after_variance = own + (conditional * shifted**2).sum(axis=(1, 2))
        count = len(releases)
        is_after = np.arange(count)[None, :] >= np.arange(count)[:, None]
        is_after[0] = False
        # Without a step, the mean does not depend on the effect.
        expected = np.where(is_after, after[:, None], before[:, None])
        spread = np.sqrt(np.where(is_after, after_variance[:, None], before_variance[:, None]))
        effect[0] = 0.0
        own_noise = np.array([noise for _, noise in _SETTINGS])
        mean_noise = float((chances.sum(axis=(0, 1)) * own_noise).sum())
        return StepPosterior(tuple(releases), steps, effect, expected, spread, mean_noise)


def expected_information(posterior: StepPosterior, chances: FloatArray | None = None) -> FloatArray:
    """Expected information of one more job at each release about the step, in bits.

    This is the mutual information of the step and the job's rate (Lindley 1956,
    doi:10.1214/aoms/1177728069): the entropy of the predicted rate less its entropy if the step is
    known. For exact answers it is greatest at the median of the posterior, as in probabilistic
    bisection (Horstein 1963, doi:10.1109/TIT.1963.1057832; Waeber, Frazier & Henderson 2013,
    doi:10.1137/120861898).

    :param chances: of the steps, instead of those of the posterior
    """
    steps = posterior.steps if chances is None else chances
    known = steps > _NEGLIGIBLE
    steps = steps[known] / steps[known].sum()
    expected, spread = posterior.expected[known], posterior.spread[known]
    grid = np.linspace((expected - 4 * spread).min(), (expected + 4 * spread).max(), 161)
    # Releases between two probable steps have the same prediction, which is computed once.
    columns, owner = np.unique(expected, axis=1, return_index=True, return_inverse=True)[1:]
    information = np.zeros(len(columns))
    for i, column in enumerate(columns):
        mean, sd = expected[:, column, None], spread[:, column, None]
        density = np.exp(-0.5 * ((grid - mean) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))
        mixture = steps @ density
        entropy = -(mixture * np.log(np.maximum(mixture, 1e-300))).sum() * (grid[1] - grid[0])
        own = (steps * (0.5 * math.log(2 * math.pi * math.e) + np.log(sd[:, 0]))).sum()
        information[i] = (entropy - own) / math.log(2)
    return np.asarray(np.maximum(information[owner.reshape(-1)], 0.0), dtype=np.float64)


def next_block(posterior: StepPosterior) -> tuple[int, int]:
    """Return the two releases whose jobs, in one block, have the most expected information.

    The second release is chosen for the expected state of knowledge after the first.
    """
    first = _middle_of_best(expected_information(posterior))
    expected, spread = posterior.expected[:, first], posterior.spread[:, first]
    total = np.zeros(len(posterior.releases))
    # The possible rates of the first job, represented by those of the most probable steps.
    likely = np.argsort(-posterior.steps, kind="stable")[:8]
    for step in likely:
        density = np.exp(-0.5 * ((expected[step] - expected) / spread) ** 2) / spread
        updated = posterior.steps * density
        updated /= updated.sum()
        total += posterior.steps[step] * expected_information(posterior, updated)
    total[first] = -1.0
    second = _middle_of_best(total)
    return posterior.releases[first], posterior.releases[second]


def _middle_of_best(information: FloatArray) -> int:
    best = np.flatnonzero(information >= information.max() - 1e-9)
    return int(best[len(best) // 2])


def noise_of(jobs: Sequence[MeasuredRate], step: int) -> Variance:
    """The variance of a job within its block, apart from a step at the release ``step``.

    The place and the size of the step were chosen to fit the jobs, so each costs one degree of
    freedom.

    :returns: at least 0 degrees of freedom; with 0, the value is ``nan``
    """
    usable = [job for job in jobs if job.usable]
    if not usable:
        return Variance(math.nan, 0)
    names, block = np.unique([job.block for job in usable], return_inverse=True)
    block = block.reshape(-1)

    def within(values: FloatArray) -> FloatArray:
        means = np.bincount(block, values) / np.bincount(block)
        return np.asarray(values - means[block], dtype=np.float64)

    rates = within(np.array([job.log_rate for job in usable]))
    since = within(np.array([job.release >= step for job in usable], dtype=np.float64))
    squares = float(rates @ rates)
    if since.any():
        squares -= float(rates @ since) ** 2 / float(since @ since)
    freedom = max(0, len(usable) - len(names) - 2)
    return Variance(max(0.0, squares) / freedom if freedom else math.nan, freedom)


@dataclass(frozen=True, slots=True)
class Remainder:
    """A further difference that one step does not explain.

    :param chance: that there is one
    :param first: the first measured release of the most probable stretch that differs
    :param last: its last measured release
    :param effect: of this stretch, natural log
    """

    chance: float
    first: int
    last: int
    effect: float


def remainder_of(jobs: Sequence[MeasuredRate], step: int | None) -> Remainder:
    """Test whether a stretch of measured releases differs from the fit with at most one step.

    :param step: the release of the known step; ``None`` if there is none
    """
    usable = [job for job in jobs if job.usable]
    places = sorted({job.release for job in usable})
    stretches = [
        (first, last)
        for i, first in enumerate(places)
        for last in places[i:]
        if (first, last) != (places[0], places[-1])
        and (step is None or not _is_side(places, first, last, step))
    ]
    if not stretches:
        return Remainder(0.0, 0, 0, 0.0)
    at = np.array([job.release for job in usable])
    columns = np.stack([np.zeros(len(at)), *((at >= a) & (at <= b) for a, b in stretches)])
    known = [np.ones(len(at))]
    if step is not None and 0 < int((at >= step).sum()) < len(at):
        known.append((at >= step).astype(np.float64))
    fit = _Fit(usable, columns, np.ones(len(usable)), known)
    fit = _Fit(usable, columns, fit.job_weights(), known)
    chances, effects = fit.steps()
    best = 1 + int(np.argmax(chances[1:]))
    first, last = stretches[best - 1]
    return Remainder(float(1 - chances[0]), first, last, float(effects[best]))


def _is_side(places: Sequence[int], first: int, last: int, step: int) -> bool:
    """Whether the stretch is all that was measured before, or since, the known step."""
    before = [it for it in places if it < step]
    since = [it for it in places if it >= step]
    return (first, last) in {(side[0], side[-1]) for side in (before, since) if side}


#: Chance with which a visible dip is seen, wherever it begins.
SEEN_CHANCE = 0.95
#: Chance with which the jobs inside a visible dip make it noticed. The rest is for noticed dips
#: that the search then loses.
_NOTICED_CHANCE = 0.96
#: The smallest dip of interest, as a share of the rate.
SMALLEST_DIP = 0.05
#: Expected number of dips that are noticed in a flat series.
_NOTICED_RATE = 0.25
#: The same for dips to which the search narrows.
_SURE_RATE = 0.001


@dataclass(frozen=True, slots=True)
class Dip:
    """The narrowest and smallest dip that would be seen.

    :param width: number of adjacent releases
    :param size: share of the rate
    """

    width: int
    size: float


@dataclass(frozen=True, slots=True)
class NoticedDip:
    """A stretch that probably differs.

    :param first: its first measured release
    :param last: its last measured release
    :param middle: a measured release inside
    :param sure: whether the search can narrow to it
    """

    first: int
    last: int
    middle: int
    sure: bool


class DipPower:
    """The dips that the jobs so far show, and the dips that they would show.

    :param jobs: of the series; those that are not usable are ignored
    :param releases: measurable releases, ascending; a dip contains neither the first nor the last
    :param smallest: the smallest dip of interest, as a share of the rate
    """

    def __init__(
        self, jobs: Sequence[MeasuredRate], releases: Sequence[int], smallest: float = SMALLEST_DIP
    ) -> None:
        order = {release: place for place, release in enumerate(releases)}
        usable = [job for job in jobs if job.usable and job.release in order]
        at = np.array([order[job.release] for job in usable], dtype=np.int64)
        self._releases = tuple(releases)
        self._smallest = math.log1p(smallest)
        self._jobs = Counter(at.tolist())
        self._inner = sorted(self._jobs.keys() - {0, len(releases) - 1})
        self._stretches = [
            (first, last) for i, first in enumerate(self._inner) for last in self._inner[i:]
        ]
        ends = np.array(self._stretches, dtype=np.int64).reshape(-1, 2)
        columns = ((at >= ends[:, :1]) & (at <= ends[:, 1:])).astype(np.float64)
        self._inside = columns.sum(axis=1)
        blocks = np.unique([job.block for job in usable], return_inverse=True)[1].reshape(-1)
        rates = np.array([job.log_rate for job in usable])
        if self._stretches and len(usable) > 3:
            self._effects, self._errors, self._freedom = _estimates(rates, blocks, columns)
        else:
            self._stretches = []
            self._effects = self._errors = self._freedom = np.zeros(0)

    def noticed(self) -> NoticedDip | None:
        """The stretch that differs most clearly, if any stands out and may be of interest."""
        if not self._stretches:
            return None
        size = np.abs(self._effects)
        share = np.where(size + self._margins >= self._smallest, size / self._thresholds, 0.0)
        best = int(np.argmax(share))
        if share[best] < 1:
            return None
        first, last = self._stretches[best]
        inside = [place for place in self._inner if first <= place <= last]
        sure = abs(self._effects[best]) >= self._quantiles(_SURE_RATE / 2)[best]
        return NoticedDip(
            self._releases[first],
            self._releases[last],
            self._releases[min(inside, key=lambda it: self._jobs[it])],
            bool(sure),
        )

    def visible_effect(self, width: int) -> float:
        """The smallest effect that a dip of this width needs to be seen, wherever it begins.

        :returns: natural log; infinite if some dip of this width contains no measured release
        """
        begins = range(1, len(self._releases) - width)
        return max((self._needed(first, first + width - 1) for first in begins), default=math.inf)

    def visible(self) -> list[Dip]:
        """For each size, the narrowest dip that would be seen; sizes without a dip are left out."""
        sizes = sorted(it for it in STEP_SIZES if math.log1p(it) >= self._smallest)
        widths = range(1, len(self._releases) - 1)
        needed = [(width, self.visible_effect(width)) for width in widths]
        goals = []
        for share in sizes:
            seen = [width for width, effect in needed if effect <= math.log1p(share)]
            goals += [Dip(seen[0], share)] if seen else []
        return goals

    @cached_property
    def _thresholds(self) -> FloatArray:
        """Effect from which each stretch is noticed."""
        return self._quantiles(_NOTICED_RATE / 2)

    def _quantiles(self, rate: float) -> FloatArray:
        """Upper quantile of each estimate if there is no dip; all releases share the rate."""
        return _upper(self._freedom, rate / len(self._inner)) * self._errors

    @cached_property
    def _visible_effects(self) -> dict[tuple[int, int], float]:
        """The effect with which each stretch is noticed almost surely."""
        effects = np.maximum(self._thresholds + self._margins, self._smallest)
        return dict(zip(self._stretches, effects.tolist(), strict=True))

    @cached_property
    def _margins(self) -> FloatArray:
        """How far an estimate is below the true effect, almost surely."""
        return _upper(self._freedom, 1 - _NOTICED_CHANCE) * self._errors

    def _needed(self, first: int, last: int) -> float:
        """The effect that a dip in these places needs to be seen."""
        begin, end = bisect_left(self._inner, first), bisect_right(self._inner, last)
        if begin == end:
            return math.inf
        return self._visible_effects.get((self._inner[begin], self._inner[end - 1]), math.inf)


def _upper(freedom: FloatArray, rate: float) -> FloatArray:
    """Upper quantiles of Student's t."""
    from scipy.special import stdtrit  # slow, and needed only with measurements

    return np.asarray(stdtrit(freedom, 1 - rate), dtype=np.float64)


def _estimates(
    rates: FloatArray, blocks: IntArray, columns: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Effect of each column, its standard error and its degrees of freedom.

    :param rates: natural logs
    :param columns: which jobs each stretch contains; one row for each stretch
    """
    freedom = len(rates) - 2
    same_block = (blocks[:, None] == blocks[None, :]).astype(np.float64)
    chances, effects, precisions = [], [], []
    for ratio, prior in BLOCK_EFFECTS:
        factor = np.linalg.cholesky(np.eye(len(rates)) + ratio**2 * same_block)
        mean, rate = np.linalg.solve(factor, np.stack([np.ones(len(rates)), rates], axis=1)).T
        stretch = np.linalg.solve(factor, columns.T)
        total = mean @ mean
        rate = rate - mean * (mean @ rate) / total
        stretch = stretch - np.outer(mean, mean @ stretch) / total
        squares = (stretch**2).sum(axis=0)
        effect = (rate @ stretch) / squares
        rest = np.maximum(rate @ rate - effect**2 * squares, 1e-20)
        effects.append(effect)
        precisions.append(freedom * squares / rest)
        chances.append(
            math.log(prior) - np.log(np.diag(factor)).sum() - 0.5 * math.log(total)
            - 0.5 * np.log(squares) - 0.5 * freedom * np.log(rest)
        )  # fmt: skip
    weights = np.exp(np.array(chances) - np.max(chances, axis=0))
    weights /= weights.sum(axis=0)
    lost = (1 - weights[0]) * blocks.max()  # block effects cost one degree each, less the mean
    return (
        np.asarray((weights * np.array(effects)).sum(axis=0)),
        np.asarray((weights * np.array(precisions)).sum(axis=0) ** -0.5),
        np.asarray(np.maximum(freedom - lost, 1.0)),
    )
