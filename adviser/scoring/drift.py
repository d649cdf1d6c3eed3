"""Detect steps in a series of measurements: data from before the last step are obsolete.

A machine that is patched, throttled or moved runs at another speed from then on. Steps are detected
in one reference stack, because its speed changes only with the machine. The method is exact
least-squares segmentation with a penalty for each step (Jackson et al. 2005,
doi:10.1109/LSP.2004.838216). PELT (Killick, Fearnhead & Eckley 2012,
doi:10.1080/01621459.2012.737745) gives the same result and is faster with many steps. However, the
pruning of PELT is wrong if each level must have at least five values. Histories are short enough
without PELT.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from adviser.scoring.lazy_numpy import FloatArray, np
from adviser.scoring.samples import MIN_JOBS
from model.measurements.job_stability import MAD_TO_SD

#: A step must save this number times ``ln n`` times the variance of the noise. BIC suggests two or
#: three. A false step costs half the data. This value gives a step in at most 1 % of series of 60
#: steady runs, also if neighbours correlate by 0.3 (``benchmarks/drift.py``).
PENALTY = 4.3

#: Upper limit of the estimated autocorrelation: a short history estimates it badly, and a step
#: looks like autocorrelation.
_MAX_CORRELATION = 0.5

#: Expected autocorrelation of the means of nightly runs, and its weight as a number of values.
_CORRELATION, _CORRELATION_WEIGHT = 0.2, 20

#: Values that differ by no more than this are equal.
_ROUNDING = 1e-12


def steps(values: Sequence[float], shortest: int = MIN_JOBS) -> list[int]:
    """Indexes at which a new level begins, ascending; empty if there is only one level.

    :param values: log rates in the order of time, one per run
    :param shortest: minimum number of values of a level

    >>> steps([1.0, 1.1, 0.9, 1.0, 1.1, 2.0, 2.1, 1.9, 2.0, 2.1])
    [5]
    """
    if len(values) < 2 * shortest:
        return []
    penalty = PENALTY * math.log(len(values))
    taken = np.asarray(values, dtype=np.float64)
    robust = long_run_sd(values)
    first = _segmented(taken, penalty * robust**2, shortest)
    variance, likeness = _pooled_noise(taken, first, shortest)
    noise = max(variance * (1 + likeness) / (1 - likeness), _coarseness(values) ** 2)
    return _segmented(taken, penalty * noise, shortest)


def _pooled_noise(values: FloatArray, known: Sequence[int], shortest: int) -> tuple[float, float]:
    """Variance of the values around their levels, and their autocorrelation, over all levels.

    The levels are the known ones and one more: the step that is looked for must not count as noise.
    All values contribute, so the estimate varies far less than one from medians of differences. The
    autocorrelation is corrected for the fitted means and drawn towards the expected one.

    :param known: indexes at which a known level begins
    """
    n = len(values)
    ends = [0, *known, n]
    gains = [
        (_best_cut(values[a:b], shortest), a) for a, b in pairwise(ends) if b - a >= 2 * shortest
    ]
    if gains:
        (_, cut), begin = max(gains)
        ends = sorted({*ends, begin + cut})
    rest = np.concatenate([values[a:b] - values[a:b].mean() for a, b in pairwise(ends)])
    levels = len(ends) - 1
    squares = float(rest @ rest)
    if squares == 0.0 or n <= levels:
        return 0.0, 0.0
    raw = float(rest[1:] @ rest[:-1]) / squares + (levels + 1) / n
    correlation = (n * raw + _CORRELATION_WEIGHT * _CORRELATION) / (n + _CORRELATION_WEIGHT)
    correlation = min(_MAX_CORRELATION, max(0.0, correlation))
    return squares / (n - levels), correlation


def _best_cut(values: FloatArray, shortest: int) -> tuple[float, int]:
    """The sum of squares that the best cut saves, and its index."""
    n = len(values)
    cuts = np.arange(shortest, n - shortest + 1)
    sums = np.cumsum(values - values[0])
    before = sums[cuts - 1]
    gains = (before / cuts - (sums[-1] - before) / (n - cuts)) ** 2 * cuts * (n - cuts) / n
    best = int(np.argmax(gains))
    return float(gains[best]), int(cuts[best])


def long_run_sd(values: Sequence[float]) -> float:
    """Long-run standard deviation per value, the noise that a step must exceed.

    It is estimated robustly from differences of neighbours (von Neumann et al. 1941), so that a few
    steps hardly change it. Differences of neighbours underestimate the noise if values are
    correlated with coefficient ρ (an autoregression of order one). Differences at lag two have ``1
    + ρ`` times the variance of those between neighbours, which gives ρ. The mean of many values has
    ``(1 + ρ)/(1 − ρ)`` times the variance of independent values. The result is never below the
    rounding error that follows from the resolution of the values: a reading may be off by one unit.

    :param values: three or more, in the order of time
    """
    taken = np.asarray(values, dtype=np.float64)
    lag_1, lag_2 = (_sd_of_differences(taken, lag) for lag in (1, 2))
    correlation = min(_MAX_CORRELATION, max(0.0, (lag_2 / lag_1) ** 2 - 1)) if lag_1 > 0 else 0.0
    variance = lag_1**2 / (1 - correlation)
    inflated = math.sqrt(variance * (1 + correlation) / (1 - correlation))
    return max(inflated, _coarseness(values))


def _coarseness(values: Sequence[float]) -> float:
    """The rounding error that follows from the resolution of the values."""
    changes = np.count_nonzero(np.abs(np.diff(np.asarray(values))) > _ROUNDING)
    # If values hardly ever change, the gaps are steps and not the resolution of the clock.
    return resolution(values) / math.sqrt(3) if changes > max(2, len(values) / 20) else 0.0


def _sd_of_differences(values: FloatArray, lag: int) -> float:
    """Standard deviation of the values, from differences at a lag, assuming independent values."""
    gaps: list[float] = np.abs(values[lag:] - values[:-lag]).tolist()
    return MAD_TO_SD * median(gaps) / math.sqrt(2)


def resolution(values: Sequence[float]) -> float:
    """The smallest gap between different values; 0 if all are equal.

    >>> resolution([1.0, 1.5, 1.0, 3.0])
    0.5
    """
    gaps = np.diff(np.unique(np.asarray(values, dtype=np.float64)))
    gaps = gaps[gaps > _ROUNDING]
    return float(gaps.min()) if len(gaps) else 0.0


def _segmented(values: FloatArray, penalty: float, shortest: int) -> list[int]:
    """The steps of the segmentation that minimises squared error plus penalties."""
    n = len(values)
    # Relative to the first value, equal values have a cost of exactly zero.
    sums = np.concatenate([[0.0], np.cumsum(values - values[0])])
    squares = np.concatenate([[0.0], np.cumsum((values - values[0]) ** 2)])
    # Do not report a step that only saves a rounding error.
    penalty = max(penalty, 1e-12 * float(squares[-1]), 1e-18)
    best = np.full(n + 1, math.inf)
    best[0] = -penalty
    before = np.zeros(n + 1, dtype=np.int64)
    for end in range(shortest, n + 1):
        starts = np.arange(end - shortest + 1)
        spread = squares[end] - squares[starts]
        cost = np.maximum(0.0, spread - (sums[end] - sums[starts]) ** 2 / (end - starts))
        total = best[starts] + cost + penalty
        before[end] = np.argmin(total)
        best[end] = total[before[end]]
    starts_of_levels: list[int] = []
    while (end := int(before[n])) > 0:
        starts_of_levels.append(end)
        n = end
    return starts_of_levels[::-1]
