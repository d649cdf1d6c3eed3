"""Where a series of measurements last stepped: older data are of another machine.

A machine that is patched, throttled or moved runs everything at another speed from then on.
The steps are found in one reference stack, which cannot have become faster by itself, by the
exact least-squares segmentation with a penalty for each step (Jackson et al. 2005,
doi:10.1109/LSP.2004.838216). PELT (Killick, Fearnhead & Eckley 2012,
doi:10.1080/01621459.2012.737745) finds the same one, faster where there are many steps;
a level of at least five values would make its pruning wrong, and a history is short.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import numpy as np

from adviser.scoring.effects import FloatArray
from adviser.scoring.samples import MIN_JOBS
from common.job_stability import MAD_TO_SD

#: Times ``ln n`` and the noise's variance is what a step must save. BIC says two or three; a step
#: where none is costs half the data, while a small one that is overlooked is within the noise.
PENALTY = 4.0

#: The most that values may be taken to be alike; a short history tells it
#: badly, and a step looks like it.
_MAX_CORRELATION = 0.5

#: Values that differ by no more are the same.
_ROUNDING = 1e-12


def steps(values: Sequence[float], shortest: int = MIN_JOBS) -> list[int]:
    """Indices at which a new level begins, ascending; empty if there is one level only.

    :param values: log rates in the order of time, each of a run of its own
    :param shortest: how many values a level has at least

    >>> steps([1.0, 1.1, 0.9, 1.0, 1.1, 2.0, 2.1, 1.9, 2.0, 2.1])
    [5]
    """
    n = len(values)
    if n < 2 * shortest:
        return []
    penalty = PENALTY * math.log(n) * long_run_sd(values) ** 2
    return _segmented(np.asarray(values, dtype=np.float64), penalty, shortest)


def long_run_sd(values: Sequence[float]) -> float:
    """How much means of many values vary, per value: what a step has to stand out from.

    From neighbours (von Neumann et al. 1941), robustly, so that a few steps hardly move it. Of
    values that are alike from one to the next, with a correlation of ρ, differences of neighbours
    tell too little: next but one they vary by ``1 + ρ`` times as much, which tells ρ, and
    the mean of many varies by ``(1 + ρ)/(1 − ρ)`` times as much as its values would suggest (as of
    an autoregression of order one). Never less than what the resolution of the values hides,
    a reading being off by as much as one unit of it.

    :param values: three or more, in the order of time
    """
    taken = np.asarray(values, dtype=np.float64)
    one, two = (_sd_of_differences(taken, lag) for lag in (1, 2))
    correlation = min(_MAX_CORRELATION, max(0.0, (two / one) ** 2 - 1)) if one > 0 else 0.0
    variance = one**2 / (1 - correlation)
    inflated = math.sqrt(variance * (1 + correlation) / (1 - correlation))
    changes = np.count_nonzero(np.abs(np.diff(taken)) > _ROUNDING)
    # Where hardly any value differs from the one before, these are steps and not the clock's.
    coarse = resolution(values) / math.sqrt(3) if changes > max(2, len(values) / 20) else 0.0
    return max(inflated, coarse)


def _sd_of_differences(values: FloatArray, lag: int) -> float:
    """Of one value, if those ``lag`` apart have nothing in common."""
    apart: list[float] = np.abs(values[lag:] - values[:-lag]).tolist()
    return MAD_TO_SD * median(apart) / math.sqrt(2)


def resolution(values: Sequence[float]) -> float:
    """The smallest gap between values that differ; 0 if none do.

    >>> resolution([1.0, 1.5, 1.0, 3.0])
    0.5
    """
    gaps = np.diff(np.unique(np.asarray(values, dtype=np.float64)))
    gaps = gaps[gaps > _ROUNDING]
    return float(gaps.min()) if len(gaps) else 0.0


def _segmented(values: FloatArray, penalty: float, shortest: int) -> list[int]:
    """The steps of the cheapest segmentation: squares about the means, and the penalties."""
    n = len(values)
    # About the first value, equal ones have a cost of exactly zero.
    sums = np.concatenate([[0.0], np.cumsum(values - values[0])])
    squares = np.concatenate([[0.0], np.cumsum((values - values[0]) ** 2)])
    # A step that saves nothing but a rounding error is none.
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
    found: list[int] = []
    while (end := int(before[n])) > 0:
        found.append(end)
        n = end
    return found[::-1]
