"""Where a series of measurements last stepped: older data are of another machine.

A machine that is patched, throttled or moved runs everything at another speed from then on.
The steps are found in one reference stack, which cannot have become faster by itself, by the
exact least-squares segmentation with a penalty for each step (Jackson et al. 2005,
doi:10.1109/LSP.2004.838216). PELT (Killick, Fearnhead & Eckley 2012,
doi:10.1080/01621459.2012.737745) finds the same one, faster where there are many steps;
a level of at least five jobs would make its pruning wrong, and a history is short.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

import numpy as np

from adviser.scoring.effects import FloatArray
from adviser.scoring.planning import MIN_JOBS

#: Of a difference of two neighbours, whose variance is twice that of each, by their MAD.
_MAD_TO_SD = 1.4826 / math.sqrt(2)

#: Times ``ln n`` and the noise's variance is what a step must save. BIC says two or three; a step
#: where none is costs half the data, while a small one that is overlooked is within the noise.
PENALTY = 4.0


def steps(values: Sequence[float], shortest: int = MIN_JOBS) -> list[int]:
    """Indices at which a new level begins, ascending; empty if there is one level only.

    The noise is estimated from neighbours (von Neumann et al. 1941), which a few steps hardly
    move. Without any noise every lasting change is a step.

    :param values: log rates in the order of time
    :param shortest: how many values a level has at least

    >>> steps([1.0, 1.1, 0.9, 1.0, 1.1, 2.0, 2.1, 1.9, 2.0, 2.1])
    [5]
    """
    n = len(values)
    if n < 2 * shortest:
        return []
    noise = _MAD_TO_SD * median(abs(b - a) for a, b in pairwise(values))
    penalty = PENALTY * math.log(n) * noise**2
    return _segmented(np.asarray(values, dtype=np.float64), penalty, shortest)


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
