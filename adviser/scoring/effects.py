"""How much two arms differ, and how surely: effects, standard errors, intervals.

An effect is ``d = mean L of the candidate − mean L of the baseline``, in natural logs:
``exp(d)`` is the ratio of their rates. An arm is the log rates of its jobs. Everything
works on arrays with one entry a candidate; what cannot be known is an infinite standard
error with zero degrees of freedom, never a warning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Effect:
    """One difference of mean log rates.

    :param d: candidate − baseline, natural log; ``nan`` if an arm is empty
    :param standard_error: of ``d``; infinite if an arm has too few jobs to tell
    :param degrees_of_freedom: of the standard error; 0 if that is unknown
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


@dataclass(frozen=True, slots=True)
class Moments:
    """Number, mean and variance (n − 1) of the jobs of many arms, one entry an arm.

    The mean of an empty arm and the variance of fewer than two jobs are ``nan``.
    """

    jobs: FloatArray
    mean: FloatArray
    variance: FloatArray

    def taken(self, places: NDArray[np.int64]) -> Moments:
        """Those of the arms at these indices, in that order, repeated where one is."""
        return Moments(self.jobs[places], self.mean[places], self.variance[places])


@dataclass(frozen=True, slots=True)
class Arms:
    """Log rates of the jobs of many arms, one arm after the other.

    :param values: of all arms
    :param sizes: how many of them each arm has
    """

    values: FloatArray
    sizes: NDArray[np.int64]

    def moments(self) -> Moments:
        """Number, mean and variance of each arm, in time linear in all jobs but for a sort.

        The order of an arm's jobs changes nothing, not even the last bit.
        """
        count = len(self.sizes)
        jobs = self.sizes.astype(np.float64)
        owner = np.repeat(np.arange(count), self.sizes)
        values = self.values[np.lexsort((self.values, owner))]
        # Taken relative to an arm's first value, equal values have a variance of exactly zero.
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

    :param baseline: one entry for all candidates, or one each
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ours = candidates.variance / candidates.jobs
        theirs = baseline.variance / baseline.jobs
        squared = ours + theirs
        # As shares of SE² the terms stay clear of underflow, which their squares do not.
        share = ours / squared
        pooled = share**2 / (candidates.jobs - 1) + (1 - share) ** 2 / (baseline.jobs - 1)
        freedom = np.where(squared > 0, 1 / pooled, candidates.jobs + baseline.jobs - 2)
    unknown = np.isnan(squared)
    return Effects(
        d=candidates.mean - baseline.mean,
        standard_error=np.where(unknown, np.inf, np.sqrt(np.where(unknown, 0.0, squared))),
        degrees_of_freedom=np.where(unknown, 0.0, freedom),
    )


def welch_effect(candidate: Sequence[float], baseline: Sequence[float]) -> Effect:
    """:func:`welch_effects` for one pair of arms of log rates.

    >>> welch_effect([1.0, 3.0], [0.0, 2.0])
    Effect(d=1.0, standard_error=1.4142135623730951, degrees_of_freedom=2.0)
    """
    return welch_effects(moments([candidate]), moments([baseline])).single(0)


def paired_effects(differences: Moments) -> Effects:
    """Effects of jobs that ran interleaved on one host (ABBA), pair by pair.

    What drifts with the hour cancels within a pair, so prefer it where pairs exist:
    ``SE = s_D/√n`` with n − 1 degrees of freedom (Student 1908, doi:10.2307/2331554).

    :param differences: of the log rates of the pairs of each candidate
    """
    unknown = np.isnan(differences.variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(differences.variance / differences.jobs)
    return Effects(
        d=differences.mean,
        standard_error=np.where(unknown, np.inf, error),
        degrees_of_freedom=np.where(unknown, 0.0, differences.jobs - 1),
    )


def paired_effect(candidate: Sequence[float], baseline: Sequence[float]) -> Effect:
    """:func:`paired_effects` for the pairs of one candidate.

    :param candidate: log rates; the i-th belongs to the i-th of ``baseline``
    :raises ValueError: if the arms differ in length

    >>> paired_effect([1.0, 2.0, 3.0], [0.0, 1.0, 2.0])
    Effect(d=1.0, standard_error=0.0, degrees_of_freedom=2.0)
    """
    differences = [ours - theirs for ours, theirs in zip(candidate, baseline, strict=True)]
    return paired_effects(moments([differences])).single(0)


def intervals(effects: Effects, confidence: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """Two-sided intervals ``d ± t·SE`` in natural logs, as arrays of lower and upper ends.

    An unknown standard error gives (−∞, ∞).

    :param confidence: share of such intervals that hold the true difference, within (0, 1)
    """
    from scipy.special import stdtrit  # slow, and needed only where something was measured

    # Zero degrees of freedom come with an infinite error; any finite t gives that interval.
    t = stdtrit(np.maximum(effects.degrees_of_freedom, 1.0), (1 + confidence) / 2)
    half = t * effects.standard_error
    return effects.d - half, effects.d + half


def interval_per_cent(effect: Effect, confidence: float = 0.95) -> tuple[float, float]:
    """:func:`intervals` of one effect as ``exp(d) − 1`` in per cent of the baseline's rate.

    >>> interval_per_cent(Effect(0.0, math.inf, 0.0))
    (-100.0, inf)
    """
    low, high = intervals(effects_of([effect]), confidence)
    return float(per_cent(low)[0]), float(per_cent(high)[0])


def per_cent(d: FloatArray) -> FloatArray:
    """``exp(d) − 1`` in per cent: how much faster (above 0) or slower than the baseline.

    >>> per_cent(np.array([0.0, np.log(1.5)])).round(9).tolist()
    [0.0, 50.0]
    """
    # Slow, and needed only where something was measured. NumPy's own differs between processors.
    from scipy.special import expm1

    with np.errstate(over="ignore"):  # past e^709 the honest number is infinity
        return np.asarray(100.0 * expm1(d), dtype=np.float64)


def chance_at_most(effects: Effects, log_bound: FloatArray | float) -> FloatArray:
    """One-sided p-values of "the true difference is at most ``log_bound``".

    ``P(T ≥ (d − bound) / SE)`` for Student's T. Without any error the answer is 0 above
    the bound and 1 at or below it; an unknown difference gives 1.
    """
    from scipy.special import stdtr  # slow, and needed only where something was measured

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
