"""One effect from several hosts of a hardware class, which never agree entirely."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adviser.scoring.effects import Effect, FloatArray


@dataclass(frozen=True, slots=True)
class PooledEffect:
    """An effect over hosts.

    :param effect: mean over the population of hosts, with hosts − 1 degrees of freedom
    :param tau: standard deviation of the true effect between hosts, natural log
    :param hosts: how many entered
    """

    effect: Effect
    tau: float
    hosts: int


def random_effects(effects: Sequence[Effect]) -> PooledEffect:
    """Pool the effects of several hosts, allowing that hosts truly differ.

    τ² by the method of moments (DerSimonian & Laird 1986,
    doi:10.1016/0197-2456(86)90046-2), weights ``1 / (SE² + τ²)``. Quantiles are Student's with
    hosts − 1 degrees of freedom, as the normal ones are too narrow for few hosts (Follmann &
    Proschan 1999, doi:10.1111/j.0006-341X.1999.00732.x). One host keeps its own effect.

    :param effects: one a host; those with an infinite standard error are left out
    :raises ValueError: if no host has a finite standard error, or one of several is zero

    >>> random_effects([Effect(0.1, 0.01, 8), Effect(0.1, 0.01, 8)]).tau
    0.0
    """
    known = [effect for effect in effects if math.isfinite(effect.standard_error)]
    if not known:
        raise ValueError("no host has jobs enough for a standard error")
    if len(known) == 1:
        return PooledEffect(known[0], tau=0.0, hosts=1)
    d = np.array([effect.d for effect in known])
    squared = np.array([effect.standard_error for effect in known]) ** 2
    if not squared.all():
        raise ValueError("a host without any spread would outweigh all others")
    tau_squared = _between_hosts(d, 1 / squared)
    weight = 1 / (squared + tau_squared)
    total = math.fsum(weight)
    pooled = Effect(
        d=math.fsum(weight * d) / total,
        standard_error=1 / math.sqrt(total),
        degrees_of_freedom=len(known) - 1.0,
    )
    return PooledEffect(pooled, math.sqrt(tau_squared), len(known))


def _between_hosts(d: FloatArray, weight: FloatArray) -> float:
    """τ²: what Cochran's Q leaves above its expectation, never below zero."""
    # Exact sums: those of BLAS depend on the processor and on its threads.
    total = math.fsum(weight)
    q = math.fsum(weight * (d - math.fsum(weight * d) / total) ** 2)
    scale = total - math.fsum(weight**2) / total
    return max(0.0, (q - (len(d) - 1)) / scale)
