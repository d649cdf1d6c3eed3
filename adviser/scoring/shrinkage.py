"""The winner's curse and its cure: what is published of the best is less than was observed."""

from __future__ import annotations

import numpy as np

from adviser.scoring.effects import Effects, FloatArray


def true_variance(effects: Effects) -> float:
    """τ²: how much the true effects vary about "no difference", by the method of moments.

    Mean of ``d² − SE²``, never below zero. About zero rather than about their mean, so that effects
    are shrunk toward "no difference", and one effect is enough.

    :param effects: of alike comparisons; those with an unknown error are left out

    >>> round(true_variance(Effects(np.array([0.1]), np.array([0.06]), np.array([8.0]))), 6)
    0.0064
    """
    known = np.isfinite(effects.standard_error) & np.isfinite(effects.d)
    if not known.any():
        return 0.0
    return max(0.0, float(np.mean(effects.d[known] ** 2 - effects.standard_error[known] ** 2)))


def shrinkage_factors(standard_error: FloatArray, tau_squared: float) -> FloatArray:
    """``τ²/(τ² + SE²)``: what is left of each effect (James & Stein 1961; Efron & Morris 1975,
    doi:10.1080/01621459.1975.10479864). Nothing of one whose error is not known.

    >>> shrinkage_factors(np.array([0.0, 0.5, np.inf]), 0.25).tolist()
    [1.0, 0.5, 0.0]
    """
    if tau_squared == 0.0:
        return np.where(standard_error == 0.0, 1.0, 0.0)
    return np.asarray(tau_squared / (tau_squared + standard_error**2), dtype=np.float64)


def pessimistic(effects: Effects, shrunk: FloatArray, alpha: float = 0.05) -> FloatArray:
    """Lower one-sided bound of the shrunk effect: what a careful person counts on.

    The error is that of the observed effect, not the smaller one of the shrunk: of two stacks
    that promise the same, the one that is better known ranks higher.

    :returns: natural log; −∞ where the error is unknown
    """
    from scipy.special import stdtrit  # slow, and needed only where something was measured

    t = stdtrit(np.maximum(effects.degrees_of_freedom, 1.0), 1 - alpha)
    with np.errstate(invalid="ignore"):
        bound = shrunk - t * effects.standard_error
    return np.where(np.isfinite(effects.standard_error), bound, -np.inf)
