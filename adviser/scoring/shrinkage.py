"""The winner's curse and its cure: what is published of the best is less than was observed."""

from __future__ import annotations

import numpy as np

from adviser.scoring.effects import Effects, FloatArray

#: Squared standardised effects count up to this: one stack that truly is far off says nothing
#: of how much the others differ.
_WINSORISED = 9.0

#: Nothing is shrunk by more than so many standard errors (the "limited translation" of Efron &
#: Morris 1972, doi:10.1080/01621459.1972.10481215), so that what stands far out of the others
#: is not told as nothing. One-sided 95 %: what is settled as faster or slower stays so.
MOST_SHRUNK = 1.645


def true_variance(effects: Effects) -> float:
    """τ²: how much the true effects vary about "no difference", precise ones counting most.

    The τ² for which ``Σ min(d²/(τ² + SE²), 9)`` is the number of effects (Paule & Mandel 1982,
    doi:10.6028/jres.087.022, winsorised), never below zero. About zero rather than about their
    mean, so that effects are shrunk toward "no difference", and one effect is enough.

    :param effects: of alike comparisons; those with an unknown error are left out

    >>> round(true_variance(Effects(np.array([0.1]), np.array([0.06]), np.array([8.0]))), 6)
    0.0064
    """
    known = np.isfinite(effects.standard_error) & np.isfinite(effects.d)
    squared, error = effects.d[known] ** 2, effects.standard_error[known] ** 2
    # A floating-point sum depends on its order; the order of the effects must not matter.
    order = np.lexsort((error, squared))
    squared, error = squared[order], error[order]
    low, high = 0.0, float(squared.max(initial=0.0))

    def explained(tau_squared: float) -> bool:
        total = tau_squared + error
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(squared > 0, squared / total, 0.0)
        return float(np.minimum(share, _WINSORISED).sum()) <= len(squared)

    if explained(0.0):
        return 0.0
    for _ in range(60):  # by halves, down to the last bit that counts
        middle = (low + high) / 2
        low, high = (low, middle) if explained(middle) else (middle, high)
    return high


def expected(effects: Effects, tau_squared: float) -> FloatArray:
    """Each effect as it is expected to last: shrunk toward none, by 1.645 errors at most.

    :returns: natural log; 0 where the error is unknown

    >>> some = Effects(np.array([0.5, 0.1]), np.array([0.1, 0.1]), np.array([8.0, 8.0]))
    >>> expected(some, 0.01).round(4).tolist()
    [0.3355, 0.05]
    """
    known = np.isfinite(effects.standard_error)
    error = np.where(known, effects.standard_error, 0.0)
    shrunk = np.abs(effects.d) * shrinkage_factors(effects.standard_error, tau_squared)
    limited = np.maximum(shrunk, np.abs(effects.d) - MOST_SHRUNK * error)
    told = np.where(known, np.copysign(limited, effects.d), 0.0)
    return np.where(np.isnan(effects.d), np.nan, told)


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

    :param alpha: over the number of effects that are looked at, the bound holds for all of them
        at once (Bonferroni), and so for the best one too
    :returns: natural log; −∞ where the error is unknown
    """
    from scipy.special import stdtrit  # slow, and needed only where something was measured

    t = stdtrit(np.maximum(effects.degrees_of_freedom, 1.0), 1 - alpha)
    with np.errstate(invalid="ignore"):
        bound = shrunk - t * effects.standard_error
    return np.where(np.isfinite(effects.standard_error), bound, -np.inf)
