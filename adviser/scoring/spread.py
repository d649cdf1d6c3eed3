"""How much the jobs of one stack differ, and whether two stacks differ in that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, stdev

#: Makes the median absolute deviation of normal noise estimate its standard deviation:
#: 1/Φ⁻¹(3/4) (Rousseeuw & Croux 1993, doi:10.1080/01621459.1993.10476408).
MAD_TO_SD = 1.4826

#: Jobs an arm below which a ratio of variances is shown but never scored: at 5 the ratio
#: of standard deviations is known to a factor of 3.1 only, at 20 to 1.6.
MIN_JOBS_TO_SCORE = 20


@dataclass(frozen=True, slots=True)
class SpreadRatio:
    """Standard deviation of a candidate's jobs over that of the baseline's.

    :param ratio: dimensionless; above 1 the candidate varies more; ``nan`` if unknown
    :param low: lower end of its interval
    :param high: upper end of its interval
    :param scored: whether there are jobs enough for more than showing it
    """

    ratio: float
    low: float
    high: float
    scored: bool


def robust_variation(values: Sequence[float]) -> float:
    """Coefficient of variation that one wild job cannot move: ``1.4826 · MAD / median``.

    :param values: rates or times, above zero, one or more, in any order
    :returns: dimensionless; 0.03 is a spread of 3 %
    :raises statistics.StatisticsError: if there is no value

    >>> round(robust_variation([98.0, 99.0, 100.0, 101.0, 500.0]), 6)
    0.014826
    """
    middle = median(values)
    return MAD_TO_SD * median(abs(value - middle) for value in values) / middle


def between_job_sd(log_rates: Sequence[float]) -> float:
    """Standard deviation of log rates between jobs; about the relative spread of the rates.

    :returns: natural-log units, ``nan`` for fewer than two jobs
    """
    return stdev(log_rates) if len(log_rates) > 1 else math.nan


def spread_ratio(
    candidate: Sequence[float], baseline: Sequence[float], confidence: float = 0.95
) -> SpreadRatio:
    """Ratio of standard deviations of log rates, with its F interval.

    ``s_b²/s_a²`` divided by the quantiles of F(n_b − 1, n_a − 1) (Snedecor & Cochran 1989,
    "Statistical Methods", ch. 6), square roots taken. It trusts the noise to be normal, which
    is one more reason not to score it early.

    :returns: an interval of (0, ∞) if an arm has fewer than two jobs or no spread at all

    >>> spread_ratio([1.0, 2.0, 3.0], [1.0, 1.5, 2.0]).ratio
    2.0
    """
    ours, theirs = between_job_sd(candidate), between_job_sd(baseline)
    scored = min(len(candidate), len(baseline)) >= MIN_JOBS_TO_SCORE
    if not (ours > 0 and theirs > 0):
        return SpreadRatio(math.nan, 0.0, math.inf, scored=False)
    from scipy.special import fdtri  # slow, and needed only where something was measured

    ratio = ours / theirs
    freedom = len(candidate) - 1, len(baseline) - 1
    tail = (1 - confidence) / 2
    low = ratio / math.sqrt(float(fdtri(*freedom, 1 - tail)))
    high = ratio / math.sqrt(float(fdtri(*freedom, tail)))
    return SpreadRatio(ratio, low, high, scored)
