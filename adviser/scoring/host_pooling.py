"""Pool the effects of several hosts of one hardware class into one effect.

The effect is the mean over the measured hosts. A second host with a similar effect makes the pooled
effect more certain. The true difference between hosts is estimated from all stacks of the series.
If one stack's effects differ more between hosts than this estimate, the stack interacts with the
host. Then the stack's error is computed from its own differences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from adviser.scoring.effects import Effect
from adviser.scoring.lazy_numpy import FloatArray, np

#: Differences between hosts with a p-value below this are real.
_DISAGREEMENT = 0.05

#: Prior degrees of freedom of agreement: few stacks behave differently on equal hosts.
_AGREEMENT_FREEDOM = 2.0

#: Minimum degrees of freedom, over all stacks, to estimate the spread between hosts.
_MIN_FREEDOM = 4


@dataclass(frozen=True, slots=True)
class HostSpread:
    """The spread of effects between hosts, over all stacks of a series.

    :param variance: τ², squared natural logs
    :param freedom: its degrees of freedom; 0 if too few stacks ran on several hosts
    """

    variance: float = 0.0
    freedom: int = 0


UNKNOWN_HOST_SPREAD = HostSpread()


@dataclass(frozen=True, slots=True)
class PooledEffect:
    """An effect pooled over hosts.

    :param effect: mean over the hosts
    :param tau: standard deviation of the true effect between hosts, natural log
    :param hosts: number of hosts
    :param agree: whether the hosts differ no more than for other stacks
    """

    effect: Effect
    tau: float
    hosts: int
    agree: bool = True


def host_spread(effects: Sequence[Sequence[Effect]]) -> HostSpread:
    """Estimate τ² so that the median of Q over several stacks equals the median expected by chance.

    Because of the median, one stack that interacts with the host does not widen the errors of all
    other stacks. τ² is 0 unless significantly many stacks differ by more than their errors (sign
    test, 5 %).

    :param effects: for each stack, its effects by host, all against the same other stack
    """
    several = [_arrays(known) for it in effects if len(known := _known(it)) > 1]
    freedom = sum(len(d) - 1 for d, _ in several)
    if freedom < _MIN_FREEDOM or not all(squared.all() for _, squared in several):
        return UNKNOWN_HOST_SPREAD
    from scipy.special import bdtrc, chdtri  # slow, and needed only for several hosts

    middles = [float(chdtri(len(d) - 1, 0.5)) for d, _ in several]

    def ratios(variance: float) -> list[float]:
        """Q of each stack divided by the median that chance gives."""
        return [
            _cochran(d, 1 / (squared + variance)) / middle
            for (d, squared), middle in zip(several, middles, strict=True)
        ]

    above = sum(it > 1 for it in ratios(0.0))
    if bdtrc(above - 1, len(several), 0.5) >= _DISAGREEMENT:
        return HostSpread(0.0, freedom)
    low, high = 0.0, 2 * max(float(np.ptp(d)) for d, _ in several) ** 2
    for _ in range(60):  # bisection, to the last significant bit
        middle = (low + high) / 2
        low, high = (low, middle) if median(ratios(middle)) <= 1 else (middle, high)
    return HostSpread(high, freedom)


def pooled_effect(
    effects: Sequence[Effect], spread: HostSpread = UNKNOWN_HOST_SPREAD
) -> PooledEffect:
    """Pool the effects of several hosts.

    Weights are ``1 / (SE² + τ²)`` with the τ² of the series. The error accounts for the uncertainty
    of estimated weights (Meier 1953, doi:10.2307/3001633). The degrees of freedom follow
    Satterthwaite. If τ² is 0, the error never exceeds the smallest error of a host. If the hosts
    disagree beyond chance for this stack (Cochran's Q, 5 %), the stack's own τ² sets the weights
    (DerSimonian & Laird 1986, doi:10.1016/0197-2456(86)90046-2), and a moderated Birge ratio scales
    the error (Birge 1932, doi:10.1103/PhysRev.40.207).

    :param effects: one per host; those with an infinite standard error are ignored
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
    q, host_freedom = _cochran(d, weight), len(known) - 1
    if chdtrc(host_freedom, q) >= _DISAGREEMENT:
        pooled = _agreeing(known, weight, spread)
        best = min(known, key=lambda it: it.standard_error)
        if not spread.variance and best.standard_error < pooled.standard_error:
            # Another host that agrees never makes an effect less certain.
            pooled = replace(best, d=pooled.d)
        return PooledEffect(pooled, math.sqrt(spread.variance), len(known))
    own = max(0.0, (q - host_freedom) / _scale(weight))
    inflation = max(1.0, (_AGREEMENT_FREEDOM + q) / (_AGREEMENT_FREEDOM + host_freedom))
    wide = 1 / (squared + spread.variance + own)
    effect = Effect(
        math.fsum(wide * d) / math.fsum(wide),
        math.sqrt(inflation / math.fsum(weight)),
        _AGREEMENT_FREEDOM + host_freedom,
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


# Exact sums below, because sums by BLAS depend on the processor and the number of threads.
def _cochran(d: FloatArray, weight: FloatArray) -> float:
    """Cochran's Q: squared differences between hosts in units of their errors."""
    mean = math.fsum(weight * d) / math.fsum(weight)
    return math.fsum(weight * (d - mean) ** 2)


def _scale(weight: FloatArray) -> float:
    total = math.fsum(weight)
    return total - math.fsum(weight**2) / total
