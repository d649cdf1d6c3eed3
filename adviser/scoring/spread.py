"""How much the jobs of one stack differ, and whether two stacks differ in that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import stdev

#: Jobs an arm below which nothing is told of a ratio of spreads: at 5 the ratio of standard
#: deviations is known to a factor of 3.1 only, at 20 to 1.6.
MIN_JOBS_TO_TELL = 20


@dataclass(frozen=True, slots=True)
class Variance:
    """A variance and how well it is known.

    :param value: squared natural logs; ``nan`` if unknown
    :param freedom: its degrees of freedom
    """

    value: float
    freedom: int


@dataclass(frozen=True, slots=True)
class SpreadRatio:
    """Standard deviation of a candidate's jobs over that of the baseline's.

    :param ratio: dimensionless; above 1 the candidate varies more; ``nan`` if unknown
    :param low: lower end of its interval
    :param high: upper end of its interval
    """

    ratio: float
    low: float
    high: float


def between_job_sd(log_rates: Sequence[float]) -> float:
    """Standard deviation of log rates between jobs; about the relative spread of the rates.

    :returns: natural-log units, ``nan`` for fewer than two jobs
    """
    return stdev(log_rates) if len(log_rates) > 1 else math.nan


def spread_ratio(
    candidate: Sequence[float], baseline: Sequence[float], confidence: float = 0.95
) -> SpreadRatio:
    """:func:`variance_ratio` of log rates that have nothing in common.

    >>> spread_ratio([1.0, 2.0, 3.0], [1.0, 1.5, 2.0]).ratio
    2.0
    """
    ours, theirs = (
        Variance(between_job_sd(it) ** 2, max(0, len(it) - 1)) for it in (candidate, baseline)
    )
    return variance_ratio(ours, theirs, confidence)


def variance_ratio(
    candidate: Variance, baseline: Variance, confidence: float = 0.95
) -> SpreadRatio:
    """Ratio of standard deviations, with its F interval.

    ``s_b²/s_a²`` divided by the quantiles of F(f_b, f_a) (Snedecor & Cochran 1989, "Statistical
    Methods", ch. 6), square roots taken. It trusts the noise to be normal, and is told, never
    scored.

    :returns: an interval of (0, ∞) if a variance is not known or zero
    """
    if not (candidate.value > 0 and baseline.value > 0):
        return SpreadRatio(math.nan, 0.0, math.inf)
    from scipy.special import fdtri  # slow, and needed only where something was measured

    ratio = math.sqrt(candidate.value / baseline.value)
    freedom = candidate.freedom, baseline.freedom
    tail = (1 - confidence) / 2
    low = ratio / math.sqrt(float(fdtri(*freedom, 1 - tail)))
    high = ratio / math.sqrt(float(fdtri(*freedom, tail)))
    return SpreadRatio(ratio, low, high)
