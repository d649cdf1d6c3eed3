"""Errors of coarse clocks: equal readings do not prove equal speeds.

A clock rounds each reading to one of its ticks, which has a variance of tick²/12. If readings vary
by much more than a tick, this error is another one each time, and part of their variance. If they
do not vary, each reading has the same error, and more jobs do not make it smaller.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from adviser.scoring.effects import Effect
from adviser.scoring.samples import mean_of

#: Degrees of freedom of a rounding error: two constant readings that differ by a few ticks are not
#: settled.
_FREEDOM = 2.0

#: Readings, or standard errors, that are smaller than this differ by floating-point errors only.
_ROUNDING = 1e-12


def clock_tick(readings: Sequence[float]) -> float:
    """The step of the clock as a share of the measured time; 0 if nothing tells it.

    If no step was recorded and readings coincide, it is at most their smallest gap.

    :param readings: log rates of the jobs of both stacks

    >>> clock_tick([0.5, 0.5, 0.25]), clock_tick([0.5, 0.25]), clock_tick([0.5, 0.5])
    (0.25, 0.0, 0.0)
    """
    gaps = [b - a for a, b in pairwise(sorted(readings))]
    wide = [gap for gap in gaps if gap > _ROUNDING]
    return min(wide, default=0.0) if len(wide) < len(gaps) else 0.0


def clock_variance(values: Sequence[float], tick: float, readings: int = 1) -> float:
    """The squared error of the mean of values that more values do not reduce.

    Constant values have all of the variance of a rounding error. It is gone where values vary by
    half a tick or more for each rounded reading.

    :param values: log rates of the jobs of a stack, or differences of pairs
    :param tick: see :func:`clock_tick`
    :param readings: number of rounded readings of which a value is made
    :returns: infinite if the values are constant and the tick is unknown

    >>> clock_variance([0.5, 0.5], 0.25), clock_variance([0.5, 0.75], 0.25)
    (0.005208333333333333, 0.0)
    """
    mean = mean_of(values) if values else 0.0
    variance = math.fsum((it - mean) ** 2 for it in values) / max(1, len(values) - 1)
    if not tick and variance <= _ROUNDING**2:
        return math.inf
    return max(0.0, readings * tick**2 / 4 - variance) / 3


def with_clock(effect: Effect, variance: float, own_freedom: float) -> tuple[Effect, float]:
    """The effect with the error of the clock, and its degrees of freedom from two stacks alone.

    Degrees of freedom follow Satterthwaite. An effect without any error is not known.
    """
    if not math.isfinite(effect.standard_error):
        return effect, own_freedom
    own = effect.standard_error**2
    total = own + variance
    if not math.isfinite(variance) or total <= _ROUNDING**2:
        return replace(effect, standard_error=math.inf, degrees_of_freedom=0.0), 0.0
    if not variance:
        return effect, own_freedom
    share = own / total

    def mixed(freedom: float) -> float:
        return 1 / ((share**2 / freedom if share else 0.0) + (1 - share) ** 2 / _FREEDOM)

    return (
        Effect(effect.d, math.sqrt(total), mixed(effect.degrees_of_freedom)),
        mixed(own_freedom),
    )
