"""Errors of jobs that ran in turns: batches, and the order within a batch.

A batch is a set of blocks whose jobs come from the same inspections: one night, one boot, one build
of each environment. In the next batch, two stacks may differ by another amount, so ten pairs of
one night say less than ten pairs of ten nights. Neighbouring pairs of one batch may be
alike, too. Both are estimated from all stacks of a series that ran in turns on one host, and from
each comparison itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from adviser.scoring.effects import Effects, Variance
from adviser.scoring.lazy_numpy import BoolArray, FloatArray, IntArray, np
from adviser.scoring.samples import MIN_JOBS
from adviser.scoring.variances import (
    TurnResiduals,
    VariancePrior,
    moderate_variances,
    variance_prior,
)

#: The autocorrelation of a series counts from 1.5 of its errors on, and in full from 2.4 errors on.
#: A threshold at 2 errors would miss more, and take more claims away from independent jobs.
_BEYOND_CHANCE = (1.5, 2.4)

#: The autocorrelation of a single comparison must exceed chance: 2 %, or 0.1 % in a known series.
_CHANCE, _CHANCE_IN_SERIES = 2.054, 3.09

#: An autocorrelation counts by this share of its error more: too low a value makes false claims.
_MARGIN = 0.5

#: Two stacks are no series: their comparison shows the same.
FEWEST_STACKS = 2

#: Upper limit of the estimated autocorrelation.
_MAX_CORRELATION = 0.95

#: Degrees of freedom of the expectation that the batches of a single comparison agree.
_AGREEMENT_FREEDOM = 2.0

#: Degrees of freedom of the expectation from the series, as a share of those of the series.
_SHARE = 0.5

#: A series whose variance between batches is above this quantile of its F distribution keeps it. A
#: higher quantile makes false claims about the one series of a pack that differs between sessions.
_UNLIKE_QUANTILE = 0.9

#: The ratio of the variances between and within the batches of a stack counts up to this quantile
#: of its F distribution, so that one stack that interacts with batches does not widen all errors.
_WINSORISED_QUANTILE = 0.99


@dataclass(frozen=True, slots=True)
class TurnNoise:
    """The noise that batches and neighbouring jobs add, for the stacks of a series on one host.

    :param between: variance of the mean of a stack between batches, squared natural logs
    :param freedom: its degrees of freedom; 0 if no stack ran in several batches
    :param correlation: of a stack's consecutive jobs; 0 unless it exceeds chance
    """

    between: float = 0.0
    freedom: float = 0.0
    correlation: float = 0.0


@dataclass(frozen=True, slots=True)
class Batches:
    """Values in the order of time, batch by batch, owner by owner.

    :param values: differences of pairs, or residuals of jobs
    :param sizes: number of values of each batch
    :param owner: number of the comparison or stack that each batch belongs to, ascending
    """

    values: FloatArray
    sizes: IntArray
    owner: IntArray

    @classmethod
    def of(cls, values: Sequence[Sequence[float]], sizes: Sequence[Sequence[int]]) -> Batches:
        """The batches of several owners, each with one value or more.

        :param values: of each owner, batch by batch
        :param sizes: sizes of the batches of each owner
        """
        return cls(
            np.array([it for own in values for it in own], dtype=np.float64),
            np.array([it for own in sizes for it in own], dtype=np.int64),
            np.repeat(np.arange(len(sizes)), [len(own) for own in sizes]),
        )

    def total(self, of_batches: FloatArray) -> FloatArray:
        """The sum over the batches of each owner."""
        return _summed(self.owner, of_batches)

    @property
    def means(self) -> FloatArray:
        """The mean of each batch; exact if its values are equal."""
        batch = self._batch
        origin = self.values[np.cumsum(self.sizes) - self.sizes]
        mean: FloatArray = origin + _summed(batch, self.values - origin[batch]) / self.sizes
        return mean

    @property
    def _batch(self) -> IntArray:
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def squares(self) -> FloatArray:
        """By batch, the sum of squares around its mean."""
        return _summed(self._batch, (self.values - self.means[self._batch]) ** 2)

    def correlations(self) -> Correlations:
        """How alike values are that follow each other, for each owner."""
        n = np.maximum(self.sizes, 3).astype(np.float64)
        long, batch = self.sizes > 2, self._batch
        rest = self.values - self.means[batch]
        next_to = np.where(batch[:-1] == batch[1:], rest[:-1] * rest[1:], 0.0)
        products = _summed(batch, np.append(next_to, 0.0))
        squares = self.total(np.where(long, _summed(batch, rest**2), 0.0))
        freedom = self.total(np.where(long, n - 1, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(long, n - 1, 0.0) / freedom[self.owner]
            ratio = self.total(np.where(long, products, 0.0)) / squares
            kept = self.total(share * (1 - 4 / np.maximum(n, 6)))
            values = (ratio + self.total(share / n)) / kept
            variance = self.total(share**2 * (n - 2) ** 2 / (n**2 * (n - 1))) / kept**2
        return Correlations(values, variance, (squares > 0) & (freedom >= MIN_JOBS - 1))


def _summed(group: IntArray, values: FloatArray) -> FloatArray:
    """The sum of the values of each group."""
    return np.asarray(np.bincount(group, values), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Correlations:
    """Estimated autocorrelations, one entry per owner.

    The means of the batches are estimated, too, so the ratio of products of neighbours to squares
    is too low by ``(1 + 4ρ)/n`` (Marriott & Pope 1954, doi:10.1093/biomet/41.3-4.390).

    :param values: corrected for this
    :param variance: their variance if values are independent (Moran 1948, doi:10.2307/2332344)
    :param usable: whether there are enough values
    """

    values: FloatArray
    variance: FloatArray
    usable: BoolArray

    def pooled(self, weights: FloatArray) -> tuple[float, float]:
        """The mean autocorrelation of the stacks of turns and its error, weighted by precision.

        The residuals of a turn add up to zero, so k stacks say as much as k − 1 independent ones.

        :param weights: of each stack, the mean of k / (k − 1)
        """
        precision = 1 / (self.variance * weights)[self.usable]
        total = float(precision.sum())
        return float((precision * self.values[self.usable]).sum()) / total, math.sqrt(1 / total)

    def shared(self, weights: FloatArray) -> float:
        """The autocorrelation of the stacks of a series; 0 unless it exceeds chance.

        :param weights: see :meth:`pooled`
        """
        if int(self.usable.sum()) <= FEWEST_STACKS:
            return 0.0
        value, error = self.pooled(weights)
        begin, end = _BEYOND_CHANCE
        strength = min(1.0, max(0.0, (value / error - begin) / (end - begin)))
        return min(strength * (value + _MARGIN * error), _MAX_CORRELATION)

    def own(self, chance: FloatArray) -> FloatArray:
        """The autocorrelation of each owner; 0 unless it exceeds chance.

        :param chance: normal quantiles that they must exceed
        """
        error = np.sqrt(self.variance)
        with np.errstate(invalid="ignore"):
            clear = self.usable & (self.values > chance * error)
        return np.where(clear, np.minimum(self.values + _MARGIN * error, _MAX_CORRELATION), 0.0)


def mean_variance(correlation: FloatArray | float, n: FloatArray) -> FloatArray:
    """Variance of the mean of n values, in units of their variance.

    >>> mean_variance(0.5, np.array([1.0, 2.0, 10.0])).round(4).tolist()
    [1.0, 0.75, 0.26]
    """
    rest = 1 - np.asarray(correlation)
    fading = 2 * correlation * (1 - _power(correlation, n)) / (n * rest**2)
    return np.asarray(((1 + correlation) / rest - fading) / n)


def _power(base: FloatArray | float, exponent: FloatArray) -> FloatArray:
    """Powers by repeated squaring: those of the C library differ between processors."""
    left = exponent.astype(np.int64)
    result, factor = np.ones(len(left)), np.broadcast_to(base, left.shape)
    while left.any():
        result = np.where(left % 2 == 1, result * factor, result)
        factor, left = factor**2, left // 2
    return result


@dataclass(frozen=True, slots=True)
class _Analysis:
    """Analysis of variance of the batches of each owner.

    :param within: sum of squares within batches, and its degrees of freedom
    :param between: the same between batches
    :param shares: variance of the mean of each batch, in units of the mean square within
    :param expected: mean square between batches if these agree, in the same unit
    :param effective: number of values of a typical batch
    """

    within: FloatArray
    within_freedom: FloatArray
    between: FloatArray
    between_freedom: FloatArray
    shares: FloatArray
    expected: FloatArray
    effective: FloatArray

    @property
    def comparable(self) -> BoolArray:
        """Where the variance between batches can be compared with that within."""
        several = self.between_freedom > 0
        return several & (self.within_freedom >= MIN_JOBS - 1) & (self.within > 0)


def _analysed(batches: Batches, correlation: FloatArray) -> _Analysis:
    """:param correlation: of each owner"""
    n = batches.sizes.astype(np.float64)
    total, several = batches.total(n), batches.total(np.ones(len(n))) - 1
    freedom: FloatArray = total - several - 1
    means = batches.means
    centre = (batches.total(n * means) / total)[batches.owner]
    of_mean = mean_variance(correlation[batches.owner], n)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Correlated values vary less around their mean than independent values.
        scale = np.where(freedom > 0, freedom / batches.total(n * (1 - of_mean)), 1.0)
        shares = scale[batches.owner] * of_mean
        expected = batches.total(n * (1 - n / total[batches.owner]) * shares) / several
        effective = (total - batches.total(n**2) / total) / several
    known = several > 0
    return _Analysis(
        within=batches.total(batches.squares()),
        within_freedom=freedom,
        between=batches.total(n * (means - centre) ** 2),
        between_freedom=several,
        shares=shares,
        expected=np.where(known, expected, 1.0),
        effective=np.where(known, effective, total),
    )


def turn_variances(residuals: TurnResiduals) -> dict[str, Variance]:
    """The variance of each stack's jobs within its batches, for stacks with five turns or more.

    Turns count as one batch if most batches have a single turn.
    """
    batches, _ = _by_stack(residuals)
    seen = _analysed(batches, np.zeros(len(residuals.stacks)))
    variances = {}
    for i, stack in enumerate(residuals.stacks):
        squares, freedom = float(seen.within[i]), int(seen.within_freedom[i])
        if freedom < MIN_JOBS - 1:
            squares += float(seen.between[i])
            freedom += int(seen.between_freedom[i])
        if freedom >= MIN_JOBS - 1:
            variances[stack] = Variance(squares / freedom, freedom)
    return variances


def _by_stack(residuals: TurnResiduals) -> tuple[Batches, FloatArray]:
    """The residuals of each stack, scaled to one job, and the mean square of this scale."""
    stack, batch = residuals.stack, residuals.batch
    new = np.flatnonzero(np.diff(stack, prepend=-1) | np.diff(batch, prepend=-1))
    sizes = np.diff(new, append=len(stack))
    batches = Batches(residuals.values * np.sqrt(residuals.weights), sizes, stack[new])
    return batches, np.bincount(stack, residuals.weights) / np.bincount(stack)


@dataclass(frozen=True, slots=True)
class _BatchVariances:
    """Mean squares of the stacks of a series on one host that ran in several batches.

    :param between: mean square between batches, and its degrees of freedom
    :param inside: the same if batches agree
    :param growth: by how much it grows with the variance between batches
    :param most: the ratio of both counts up to this
    :param known: degrees of freedom of all stacks together
    """

    between: FloatArray
    freedom: FloatArray
    inside: FloatArray
    growth: FloatArray
    most: FloatArray
    known: float

    def excess(self, variance: float) -> tuple[float, float]:
        """Squares between batches in units of those that this variance explains, and as many as
        chance gives.
        """
        ratios = np.minimum(self.between / (self.inside + variance * self.growth), self.most)
        return float((self.freedom * ratios).sum()), float(self.freedom.sum())

    @property
    def variance(self) -> float:
        """The variance between batches that explains the ratios (Paule & Mandel 1982,
        doi:10.6028/jres.087.022, winsorised).
        """

        def explained(variance: float) -> bool:
            squares, chance = self.excess(variance)
            return squares <= chance

        low, high = 0.0, 0.0 if explained(0.0) else float(self.between.max())
        for _ in range(60 if high else 0):  # bisection, to the last significant bit
            middle = (low + high) / 2
            low, high = (low, middle) if explained(middle) else (middle, high)
        return high

    def scaled(self, shared: float, ratio: float) -> float:
        """The variance between batches if mean squares are this multiple of ``shared``."""
        left = (self.inside + shared * self.growth) * ratio - self.inside
        return float(
            (self.freedom * np.maximum(left, 0.0) / self.growth).sum() / self.freedom.sum()
        )


def turn_noises(several: Sequence[TurnResiduals]) -> list[TurnNoise]:
    """The noise of series that ran in batches of the same kind, each on one host.

    The variance between batches of each is pulled towards that of all together (empirical Bayes;
    Smyth 2004, doi:10.2202/1544-6115.1027), unless it is larger beyond chance (F, 10 %).
    """
    correlations, variances = [], []
    for residuals in several:
        batches, weights = _by_stack(residuals)
        correlations.append(batches.correlations().shared(weights))
        variances.append(_batch_variances(batches, weights, correlations[-1]))
    levels = iter(_shared_levels([it for it in variances if it is not None]))
    return [
        TurnNoise(*((0.0, 0.0) if it is None else next(levels)), correlation)
        for it, correlation in zip(variances, correlations, strict=True)
    ]


def _shared_levels(known: Sequence[_BatchVariances]) -> list[tuple[float, float]]:
    """For each series, the variance between batches and its degrees of freedom."""
    if len(known) < 2:
        return [(it.variance, it.known) for it in known]
    freedom = [it.known for it in known]
    shared = _BatchVariances(
        np.concatenate([it.between for it in known]),
        np.concatenate([it.freedom for it in known]),
        np.concatenate([it.inside for it in known]),
        np.concatenate([it.growth for it in known]),
        np.concatenate([it.most for it in known]),
        math.fsum(freedom),
    ).variance
    ratios = [squares / chance for squares, chance in (it.excess(shared) for it in known)]
    prior = variance_prior([Variance(*it) for it in zip(ratios, freedom, strict=True)])
    if not prior.freedom:  # too few to see how unlike they are
        others = math.fsum(freedom) * (len(known) - 1) / len(known)
        prior = VariancePrior(1.0, _SHARE * others)
    moderated = moderate_variances(
        np.array(ratios), np.array(freedom), [prior] * len(known), _UNLIKE_QUANTILE
    )
    return [
        (it.variance if total == it.known else it.scaled(shared, ratio), total)
        for it, ratio, total in zip(known, *(part.tolist() for part in moderated), strict=True)
    ]


def _batch_variances(
    batches: Batches, weights: FloatArray, correlation: float
) -> _BatchVariances | None:
    """``None`` if no stack has comparable variances between and within batches."""
    owners = len(weights)
    seen = _analysed(batches, np.full(owners, correlation))
    usable = seen.comparable
    if not usable.any():
        return None
    from scipy.special import fdtri  # slow, and needed only for several batches

    freedom = seen.between_freedom[usable]
    return _BatchVariances(
        seen.between[usable] / freedom,
        freedom,
        (seen.within / np.maximum(seen.within_freedom, 1.0) * seen.expected)[usable],
        seen.effective[usable],
        fdtri(freedom, seen.within_freedom[usable], _WINSORISED_QUANTILE),
        float(freedom.sum()) * max(1, owners - 1) / owners,
    )


@dataclass(frozen=True, slots=True)
class NoiseTest:
    """Whether noise of batches or of neighbours is beyond chance, over several series.

    :param between: standard deviation of the mean of a stack between batches, natural log, of the
        series that shows it most clearly
    :param between_p: p-value of "batches add nothing"
    :param correlation: mean autocorrelation
    :param correlation_p: one-sided p-value of "neighbours are independent"
    """

    between: float
    between_p: float
    correlation: float
    correlation_p: float


def noise_test(series: Iterable[TurnResiduals]) -> NoiseTest:
    """Test the jobs of several series that ran in turns, each on one host, as one."""
    from scipy.special import chdtrc, chdtri, fdtrc, ndtr  # slow, and needed only for a self-check

    score, freedom, clearest, between = 0.0, 0.0, 0.0, 0.0
    correlations: list[tuple[float, float]] = []
    for residuals in series:
        batches, weights = _by_stack(residuals)
        (noise,) = turn_noises([residuals])
        independent = (len(residuals.stacks) - 1) / len(residuals.stacks)
        alike = batches.correlations()
        if alike.usable.any():
            value, error = alike.pooled(weights)
            correlations.append((value, error**2))
        seen = _analysed(batches, np.full(len(residuals.stacks), noise.correlation))
        usable = seen.comparable
        f, within = seen.between_freedom[usable], seen.within_freedom[usable]
        ratio = seen.between[usable] / f / (seen.within[usable] / within * seen.expected[usable])
        squares = float(chdtri(f, np.maximum(fdtrc(f, within, ratio), 1e-300)).sum()) * independent
        score, freedom = score + squares, freedom + float(f.sum()) * independent
        if noise.between and squares > clearest:
            clearest, between = squares, math.sqrt(noise.between)
    total = math.fsum(1 / error for _, error in correlations)
    weighted = [it / error for it, error in correlations]
    mean = math.fsum(weighted) / total if total else 0.0
    return NoiseTest(
        between,
        float(chdtrc(freedom, score)) if freedom else 1.0,
        mean,
        float(ndtr(-mean * math.sqrt(total))),
    )


@dataclass(frozen=True, slots=True)
class TurnEffects:
    """Effects of stacks that ran in turns, one entry each.

    :param own_freedom: degrees of freedom from the two stacks alone
    :param between: share of the squared error that comes from differences between batches
    """

    effects: Effects
    own_freedom: FloatArray
    between: FloatArray


def turn_effects(
    differences: Batches, priors: Sequence[VariancePrior], noise: Sequence[TurnNoise | None]
) -> TurnEffects:
    """Effects of jobs that ran in turns.

    The variance of a difference is moderated by the prior. The variance between batches is
    moderated by the expectation from the series; a comparison whose batches differ far more keeps
    its own. Degrees of freedom follow Satterthwaite (1946, doi:10.2307/3002019).

    :param differences: of log rates, in the order of time
    :param priors: the variance of a difference within a batch that other stacks suggest
    :param noise: of the series on this host; ``None`` if it is unknown
    """
    known = np.array([it is not None for it in noise], dtype=np.bool_)
    series = [it or TurnNoise() for it in noise]
    correlation = np.maximum(
        differences.correlations().own(np.where(known, _CHANCE_IN_SERIES, _CHANCE)),
        np.array([it.correlation for it in series]),
    )
    seen = _analysed(differences, correlation)
    owner, several = differences.owner, seen.between_freedom
    apart = seen.within_freedom >= MIN_JOBS - 1
    freedom = np.where(apart, seen.within_freedom, seen.within_freedom + several)
    squares = np.where(apart, seen.within, seen.within + seen.between)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance, moderated = moderate_variances(squares / freedom, freedom, priors)
    expected_between = 2 * np.array([it.between for it in series])
    prior_freedom = np.maximum(_AGREEMENT_FREEDOM, _SHARE * np.array([it.freedom for it in series]))
    inside = variance * seen.expected
    agreement = inside + seen.effective * expected_between
    with np.errstate(divide="ignore", invalid="ignore"):
        between, between_freedom = moderate_variances(
            np.where(several > 0, seen.between / several, agreement),
            several,
            [
                VariancePrior(*it)
                for it in zip(agreement.tolist(), prior_freedom.tolist(), strict=True)
            ],
        )
    between_freedom = np.where(several > 0, between_freedom, prior_freedom)
    # With few pairs within batches, all pairs count as independent, and show the batches as well.
    shared = np.where(seen.effective > 1, expected_between, 0.0)
    interaction = np.where(apart, np.maximum(0.0, between - inside) / seen.effective, shared)
    of_batch = variance[owner] * seen.shares
    whole = of_batch + interaction[owner]
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = np.where(whole > 0, 1 / whole, differences.sizes)
        share = weight / differences.total(weight)[owner]
        d = differences.total(share * differences.means)
        within = differences.total(share**2 * of_batch)
        total = differences.total(share**2 * whole)
        part = np.where(total > 0, within / total, 1.0)
        alike = (1 - correlation**2) / (1 + correlation**2)
        degrees = 1 / (part**2 / (moderated * alike) + (1 - part) ** 2 / between_freedom)
        own = 1 / (part**2 / (freedom * alike) + (1 - part) ** 2 / np.maximum(several, 1.0))
    usable = freedom > 0
    return TurnEffects(
        Effects(d, np.where(usable, np.sqrt(total), np.inf), np.where(usable, degrees, 0.0)),
        np.where(usable, own, 0.0),
        1 - part,
    )
