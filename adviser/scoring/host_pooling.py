"""One effect from several hosts of a hardware class.

The effect is the mean over the hosts that were measured. A second host that agrees makes it more
certain. How much hosts truly differ is estimated over all stacks of the series; a stack whose own
effects differ from host to host more than that carries an interaction of its own, and its error
comes from these differences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from adviser.scoring.effects import Effect, FloatArray

#: Below this chance of such differences between hosts, they are taken for real.
_DISAGREEMENT = 0.05

#: Degrees of freedom that agreement has beforehand: few stacks behave differently on equal hosts.
_AGREEMENT_FREEDOM = 2.0

#: Degrees of freedom over all stacks from which the spread between hosts is estimated.
_MIN_FREEDOM = 4


@dataclass(frozen=True, slots=True)
class HostSpread:
    """How much the effect of a stack differs between hosts, over all stacks of a series.

    :param variance: τ², squared natural logs
    :param freedom: its degrees of freedom; 0 if too few stacks ran on several hosts
    """

    variance: float = 0.0
    freedom: int = 0


UNKNOWN_HOST_SPREAD = HostSpread()


@dataclass(frozen=True, slots=True)
class PooledEffect:
    """An effect over hosts.

    :param effect: mean over the hosts
    :param tau: standard deviation of the true effect between hosts, natural log
    :param hosts: how many entered
    :param agree: whether the hosts differ no more than those of other stacks
    """

    effect: Effect
    tau: float
    hosts: int
    agree: bool = True


def host_spread(effects: Sequence[Sequence[Effect]]) -> HostSpread:
    """τ² over several stacks: the one that makes the median of their Q what chance makes it.

    The median, because a stack that carries an interaction of its own must not widen the errors of
    all others. It is 0 unless more stacks than chance explains differ beyond their errors (sign
    test, 5 %).

    :param effects: of each stack against one and the same other stack, those of its hosts
    """
    several = [_arrays(known) for it in effects if len(known := _known(it)) > 1]
    freedom = sum(len(d) - 1 for d, _ in several)
    if freedom < _MIN_FREEDOM or not all(squared.all() for _, squared in several):
        return UNKNOWN_HOST_SPREAD
    from scipy.special import bdtrc, chdtri  # slow, and needed only for several hosts

    middles = [float(chdtri(len(d) - 1, 0.5)) for d, _ in several]

    def ratios(variance: float) -> list[float]:
        """Q of each stack next to its median under chance."""
        return [
            _cochran(d, 1 / (squared + variance)) / middle
            for (d, squared), middle in zip(several, middles, strict=True)
        ]

    above = sum(it > 1 for it in ratios(0.0))
    if bdtrc(above - 1, len(several), 0.5) >= _DISAGREEMENT:
        return HostSpread(0.0, freedom)
    low, high = 0.0, 2 * max(float(np.ptp(d)) for d, _ in several) ** 2
    for _ in range(60):  # by halves, down to the last bit that counts
        middle = (low + high) / 2
        low, high = (low, middle) if median(ratios(middle)) <= 1 else (middle, high)
    return HostSpread(high, freedom)


def pooled_effect(
    effects: Sequence[Effect], spread: HostSpread = UNKNOWN_HOST_SPREAD
) -> PooledEffect:
    """Pool the effects of several hosts.

    Weights are ``1 / (SE² + τ²)`` with the τ² of the series. The error allows for weights that were
    themselves estimated (Meier 1953, doi:10.2307/3001633), with degrees of freedom after
    Satterthwaite. It is never larger than that of the most certain host, unless τ² says that hosts
    truly differ. Where the hosts of this very stack disagree beyond chance (Cochran's Q, 5 %), its
    own τ² sets the weights (DerSimonian & Laird 1986, doi:10.1016/0197-2456(86)90046-2), and the
    error is scaled by a moderated Birge ratio (Birge 1932, doi:10.1103/PhysRev.40.207).

    :param effects: one a host; those with an infinite standard error are left out
    :raises ValueError: if no host has a finite standard error, or one of several is zero

    >>> two = pooled_effect([Effect(0.1, 0.01, 9), Effect(0.1, 0.01, 9)])
    >>> round(two.effect.d, 6), round(two.effect.standard_error, 6)
    (0.1, 0.007817)
    """
    known = _known(effects)
    if not known:
        raise ValueError("no host has jobs enough for a standard error")
    if len(known) == 1:
        return PooledEffect(known[0], tau=0.0, hosts=1)
    d, squared = _arrays(known)
    if not squared.all():
        raise ValueError("a host without any spread would outweigh all others")
    from scipy.special import chdtrc  # slow, and needed only for several hosts

    weight = 1 / (squared + spread.variance)
    q, apart = _cochran(d, weight), len(known) - 1
    if chdtrc(apart, q) >= _DISAGREEMENT:
        pooled = _agreeing(known, weight, spread)
        best = min(known, key=lambda it: it.standard_error)
        if not spread.variance and best.standard_error < pooled.standard_error:
            # A further host that agrees never makes an effect less certain.
            pooled = replace(best, d=pooled.d)
        return PooledEffect(pooled, math.sqrt(spread.variance), len(known))
    own = max(0.0, (q - apart) / _scale(weight))
    inflation = max(1.0, (_AGREEMENT_FREEDOM + q) / (_AGREEMENT_FREEDOM + apart))
    wide = 1 / (squared + spread.variance + own)
    effect = Effect(
        math.fsum(wide * d) / math.fsum(wide),
        math.sqrt(inflation / math.fsum(weight)),
        _AGREEMENT_FREEDOM + apart,
    )
    return PooledEffect(effect, math.sqrt(spread.variance + own), len(known), agree=False)


def _agreeing(effects: Sequence[Effect], weight: FloatArray, spread: HostSpread) -> Effect:
    d, squared = _arrays(effects)
    freedom = np.array([it.degrees_of_freedom for it in effects])
    total = math.fsum(weight)
    share = weight / total
    estimated = 1 + 4 * math.fsum(share * (1 - share) / freedom)
    variance = estimated / total
    within = share**2 * squared * estimated
    between = variance - math.fsum(within)
    parts = math.fsum(within**2 / freedom)
    if spread.freedom and between > 0:
        parts += between**2 / spread.freedom
    return Effect(math.fsum(share * d), math.sqrt(variance), variance**2 / parts)


def _known(effects: Sequence[Effect]) -> list[Effect]:
    return [it for it in effects if math.isfinite(it.standard_error)]


def _arrays(effects: Sequence[Effect]) -> tuple[FloatArray, FloatArray]:
    return (
        np.array([it.d for it in effects]),
        np.array([it.standard_error for it in effects]) ** 2,
    )


# Exact sums below: those of BLAS depend on the processor and on its threads.
def _cochran(d: FloatArray, weight: FloatArray) -> float:
    """Cochran's Q: how much the hosts differ, in units of their errors."""
    mean = math.fsum(weight * d) / math.fsum(weight)
    return math.fsum(weight * (d - mean) ** 2)


def _scale(weight: FloatArray) -> float:
    total = math.fsum(weight)
    return total - math.fsum(weight**2) / total
