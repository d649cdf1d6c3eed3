"""Effects of candidates: differences of log rates, their errors, intervals and shrinkage.

An effect is ``d = mean L of the candidate − mean L of the baseline``, in natural logs, so
``exp(d)`` is the ratio of their rates. An arm is the log rates of the jobs of one stack. Arrays
have one entry per candidate. An unknown error is infinite, with zero degrees of freedom; there are
no warnings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from adviser.scoring.lazy_numpy import FloatArray, IntArray, np
from model.declared_fields import Field


@dataclass(frozen=True, slots=True)
class Effect:
    """One difference of mean log rates.

    :param d: candidate − baseline, natural log; ``nan`` if an arm is empty
    :param standard_error: standard error of ``d``; infinite if an arm has too few jobs
    :param degrees_of_freedom: degrees of freedom of the standard error; 0 if it is unknown
    """

    d: float
    standard_error: float
    degrees_of_freedom: float


@dataclass(frozen=True, slots=True)
class Effects:
    """Many effects as arrays of equal length; fields as in :class:`Effect`."""

    d: FloatArray
    standard_error: FloatArray
    degrees_of_freedom: FloatArray

    def single(self, i: int) -> Effect:
        """The effect at index ``i``."""
        return Effect(
            float(self.d[i]), float(self.standard_error[i]), float(self.degrees_of_freedom[i])
        )

    def taken(self, places: IntArray | Sequence[int]) -> Effects:
        """The effects at these indexes, in this order."""
        chosen = np.asarray(places, dtype=np.int64)
        return Effects(self.d[chosen], self.standard_error[chosen], self.degrees_of_freedom[chosen])


@dataclass(frozen=True, slots=True)
class Moments:
    """Number, mean and variance (n − 1) of the jobs of many arms, one entry per arm.

    The mean of an empty arm and the variance of fewer than two jobs are ``nan``.
    """

    jobs: FloatArray
    mean: FloatArray
    variance: FloatArray

    def taken(self, places: IntArray) -> Moments:
        """The moments at these indexes, in this order; indexes may repeat."""
        return Moments(self.jobs[places], self.mean[places], self.variance[places])


@dataclass(frozen=True, slots=True)
class Arms:
    """The logarithms of the jobs' rates for several arms, arm by arm.

    :param values: log rates of all arms
    :param sizes: number of jobs of each arm
    """

    values: FloatArray
    sizes: IntArray

    def moments(self) -> Moments:
        """Number, mean and variance of each arm; apart from a sort, this takes linear time.

        The result does not depend on the order of an arm's jobs, not even in the last bit.
        """
        count = len(self.sizes)
        jobs = self.sizes.astype(np.float64)
        owner = np.repeat(np.arange(count), self.sizes)
        values = self.values[np.lexsort((self.values, owner))]
        # Relative to the first value of the arm, equal values have a variance of exactly zero.
        origin = np.full(count, math.nan)
        filled = self.sizes > 0
        origin[filled] = values[(np.cumsum(self.sizes) - self.sizes)[filled]]
        shifted = values - origin[owner]
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.bincount(owner, shifted, minlength=count) / jobs
            squares = np.bincount(owner, (shifted - mean[owner]) ** 2, minlength=count)
            variance = np.where(jobs > 1, squares / (jobs - 1), np.nan)
        return Moments(jobs, origin + mean, variance)


def moments(arms: Sequence[Sequence[float]]) -> Moments:
    """:meth:`Arms.moments` of arms that are lists.

    >>> moments([(1.0, 3.0), (5.0,)]).mean.tolist()
    [2.0, 5.0]
    """
    values = np.array([value for arm in arms for value in arm], dtype=np.float64)
    return Arms(values, np.array([len(arm) for arm in arms], dtype=np.int64)).moments()


def welch_effects(candidates: Moments, baseline: Moments) -> Effects:
    """Effects of arms whose variances may differ.

    ``SE² = s_a²/n_a + s_b²/n_b`` (Welch 1947, doi:10.1093/biomet/34.1-2.28), degrees of
    freedom after Satterthwaite (1946, doi:10.2307/3002019). Arms without any spread have
    a standard error of zero and ``n_a + n_b − 2`` degrees of freedom.

    :param baseline: one entry for all candidates, or one for each
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ours = candidates.variance / candidates.jobs
        theirs = baseline.variance / baseline.jobs
        squared = ours + theirs
        # Shares of SE² avoid the underflow of squared variances.
        share = ours / squared
        pooled = share**2 / (candidates.jobs - 1) + (1 - share) ** 2 / (baseline.jobs - 1)
        freedom = np.where(squared > 0, 1 / pooled, candidates.jobs + baseline.jobs - 2)
    unknown = np.isnan(squared)
    return Effects(
        d=candidates.mean - baseline.mean,
        standard_error=np.where(unknown, np.inf, np.sqrt(np.where(unknown, 0.0, squared))),
        degrees_of_freedom=np.where(unknown, 0.0, freedom),
    )


def intervals(effects: Effects, confidence: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """Two-sided intervals ``d ± t·SE`` in natural logs, as arrays of lower and upper ends.

    If the standard error is unknown, the interval is (−∞, ∞).

    :param confidence: share of intervals that contain the true difference, within (0, 1)
    """
    from scipy.special import stdtrit  # slow, and needed only with measurements

    # Zero degrees of freedom come with an infinite error, so any finite t gives (−∞, ∞).
    t = stdtrit(np.maximum(effects.degrees_of_freedom, 1.0), (1 + confidence) / 2)
    half = t * effects.standard_error
    return effects.d - half, effects.d + half


def per_cent(d: FloatArray) -> FloatArray:
    """``exp(d) − 1`` in per cent: how much faster (above 0) or slower than the baseline.

    >>> per_cent(np.array([0.0, np.log(1.5)])).round(9).tolist()
    [0.0, 50.0]
    """
    # Slow, and needed only with measurements. NumPy's expm1 differs between processors.
    from scipy.special import expm1

    with np.errstate(over="ignore"):  # beyond e^709 the result is infinite
        return np.asarray(100.0 * expm1(d), dtype=np.float64)


def chance_at_most(effects: Effects, log_bound: FloatArray | float) -> FloatArray:
    """One-sided p-values of the hypothesis "the true difference is at most ``log_bound``".

    ``P(T ≥ (d − bound) / SE)`` for Student's T. With a standard error of zero, the p-value is 0
    above the bound, else 1. If the difference is unknown, the p-value is 1.
    """
    from scipy.special import stdtr  # slow, and needed only with measurements

    with np.errstate(divide="ignore", invalid="ignore"):
        t = (effects.d - log_bound) / effects.standard_error
    p = stdtr(np.maximum(effects.degrees_of_freedom, 1.0), -np.nan_to_num(t, nan=-np.inf))
    return np.asarray(p, dtype=np.float64)


def effects_of(effects: Sequence[Effect]) -> Effects:
    """Single effects as arrays, in their order."""
    return Effects(
        np.array([effect.d for effect in effects]),
        np.array([effect.standard_error for effect in effects]),
        np.array([effect.degrees_of_freedom for effect in effects]),
    )


#: Minimum number of jobs per arm for a ratio of spreads: with 5 jobs the ratio of standard
#: deviations is known to a factor of 3.1, with 20 jobs to a factor of 1.6.
MIN_JOBS_TO_TELL = 20


@dataclass(frozen=True, slots=True)
class Variance:
    """An estimated variance.

    :param value: squared natural logs; ``nan`` if unknown
    :param freedom: its degrees of freedom
    """

    value: float
    freedom: float


@dataclass(frozen=True, slots=True)
class SpreadRatio:
    """Standard deviation of a candidate's jobs divided by that of the baseline's jobs."""

    ratio: Annotated[
        float, Field("Ratio of standard deviations; above 1, the candidate varies more.", 1.2)
    ]
    low: Annotated[float, Field("Lower end of its 95 % interval.", 0.8)]
    high: Annotated[float, Field("Upper end of its 95 % interval.", 1.8)]


def variance_ratio(
    candidate: Variance, baseline: Variance, confidence: float = 0.95
) -> SpreadRatio:
    """Ratio of standard deviations, with its F interval.

    The ends of the interval are the square roots of ``s_b²/s_a²`` divided by the quantiles of
    F(f_b, f_a) (Snedecor & Cochran 1989, "Statistical Methods", ch. 6). The interval assumes normal
    noise. Reports show the ratio, but it is never scored.

    :returns: an interval of (0, ∞) if a variance is not known or zero
    """
    if not (candidate.value > 0 and baseline.value > 0):
        return SpreadRatio(math.nan, 0.0, math.inf)
    from scipy.special import fdtri  # slow, and needed only with measurements

    ratio = math.sqrt(candidate.value / baseline.value)
    freedom = candidate.freedom, baseline.freedom
    tail = (1 - confidence) / 2
    low = ratio / math.sqrt(float(fdtri(*freedom, 1 - tail)))
    high = ratio / math.sqrt(float(fdtri(*freedom, tail)))
    return SpreadRatio(ratio, low, high)


#: Upper limit of squared standardised effects: one stack with a large effect says nothing about
#: how much the others differ.
_WINSORISED = 9.0

#: No effect is shrunk by more standard errors than this ("limited translation", Efron & Morris
#: 1972, doi:10.1080/01621459.1972.10481215), so that an outlier among the stacks is not reported
#: as no difference. One-sided 95 %: a settled verdict keeps its sign.
MOST_SHRUNK = 1.645


def true_variance(effects: Effects) -> float:
    """τ²: variance of the true effects about zero, weighted by precision.

    It is the τ² for which ``Σ min(d²/(τ² + SE²), 9)`` is the number of effects (Paule & Mandel
    1982, doi:10.6028/jres.087.022, winsorised), at least zero. The variance is taken about zero,
    not about the mean. So effects are shrunk towards "no difference", and a single effect is enough
    for an estimate.

    :param effects: effects of one series; those with an unknown error are ignored

    >>> round(true_variance(Effects(np.array([0.1]), np.array([0.06]), np.array([8.0]))), 6)
    0.0064
    """
    known = np.isfinite(effects.standard_error) & np.isfinite(effects.d)
    squared, error = effects.d[known] ** 2, effects.standard_error[known] ** 2
    # Sorted, because a floating-point sum depends on its order.
    order = np.lexsort((error, squared))
    squared, error = squared[order], error[order]
    low, high = 0.0, float(squared.max(initial=0.0))

    def explained(tau_squared: float) -> bool:
        total = tau_squared + error
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(squared > 0, squared / total, 0.0)
        return float(np.minimum(share, _WINSORISED).sum()) <= len(squared)

    if explained(0.0):
        return 0.0
    for _ in range(60):  # bisection, to the last significant bit
        middle = (low + high) / 2
        low, high = (low, middle) if explained(middle) else (middle, high)
    return high


def shrunk_effects(effects: Effects, tau_squared: float) -> FloatArray:
    """Shrink each effect towards zero, by at most 1.645 standard errors.

    A shrunk effect is the difference to expect in the future.

    :returns: natural log; 0 where the error is unknown

    >>> observed = Effects(np.array([0.5, 0.1]), np.array([0.1, 0.1]), np.array([8.0, 8.0]))
    >>> shrunk_effects(observed, 0.01).round(4).tolist()
    [0.3355, 0.05]
    """
    known = np.isfinite(effects.standard_error)
    error = np.where(known, effects.standard_error, 0.0)
    shrunk = np.abs(effects.d) * shrinkage_factors(effects.standard_error, tau_squared)
    limited = np.maximum(shrunk, np.abs(effects.d) - MOST_SHRUNK * error)
    signed = np.where(known, np.copysign(limited, effects.d), 0.0)
    return np.where(np.isnan(effects.d), np.nan, signed)


def shrinkage_factors(standard_error: FloatArray, tau_squared: float) -> FloatArray:
    """``τ²/(τ² + SE²)``: the part of each effect that remains (James & Stein 1961; Efron & Morris
    1975, doi:10.1080/01621459.1975.10479864); 0 if its error is unknown.

    >>> shrinkage_factors(np.array([0.0, 0.5, np.inf]), 0.25).tolist()
    [1.0, 0.5, 0.0]
    """
    if tau_squared == 0.0:
        return np.where(standard_error == 0.0, 1.0, 0.0)
    return np.asarray(tau_squared / (tau_squared + standard_error**2), dtype=np.float64)


def lower_bounds(
    effects: Effects, shrunk: FloatArray, alpha: FloatArray | float = 0.05
) -> FloatArray:
    """One-sided lower bounds of shrunk effects.

    The bounds use the error of the observed effect, which is larger than the error of the shrunk
    effect. Of two stacks with equal shrunk effects, the stack with better measurements ranks
    higher.

    :param alpha: if divided by the number of effects, the bounds hold for all effects at once
        (Bonferroni), so for the best effect, too
    :returns: natural log; −∞ where the error is unknown
    """
    from scipy.special import stdtrit  # slow, and needed only with measurements

    t = stdtrit(np.maximum(effects.degrees_of_freedom, 1.0), 1 - alpha)
    with np.errstate(invalid="ignore"):
        bound = shrunk - t * effects.standard_error
    return np.where(np.isfinite(effects.standard_error), bound, -np.inf)
