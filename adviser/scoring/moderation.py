"""Moderated variances: what the other stacks of a series say of the variance of one stack.

Five jobs know their own variance badly, and a variance that is small by luck makes a false claim.
The stacks of one series on one host mostly vary alike, so each variance is pulled towards what
they share (empirical Bayes; Smyth 2004, doi:10.2202/1544-6115.1027). A stack that varies more
than the others keeps its own variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from adviser.scoring.effects import FloatArray
from adviser.scoring.spread import Variance

#: Up to this many stacks nothing is shared. With fewer, the prior trusted itself too much in
#: simulations where one stack varies three times as much as the others.
FEW_STACKS = 5

#: Share of the other stacks' degrees of freedom that the prior may have at most.
MAX_SHARE = 0.3

#: A variance above this quantile of its F distribution is not pulled towards the prior.
OUTLIER_QUANTILE = 0.95

#: Variances below this share of their median count as that: a clock's resolution hides the rest.
_SMALLEST_SHARE = 1e-5


@dataclass(frozen=True, slots=True)
class VariancePrior:
    """What the stacks of a series share of their variances.

    :param variance: of one job or run, squared natural logs; ``nan`` if unknown
    :param freedom: its degrees of freedom; 0 if unknown
    """

    variance: float = math.nan
    freedom: float = 0.0


NO_PRIOR = VariancePrior()


def variance_prior(variances: Sequence[Variance]) -> VariancePrior:
    """Fit a scaled inverse χ² distribution to the variances of several stacks.

    Moments of log variances, as in limma (Smyth 2004, section 6.2); the degrees of freedom are
    capped, because variances that were estimated from shared turns are not independent.

    :param variances: one a stack, in any order
    :returns: :data:`NO_PRIOR` for :data:`FEW_STACKS` stacks or fewer
    """
    known = [it for it in variances if it.freedom > 0 and math.isfinite(it.value)]
    if len(known) <= FEW_STACKS:
        return NO_PRIOR
    middle = median(it.value for it in known)
    if middle <= 0.0:
        return NO_PRIOR
    from scipy.special import digamma, polygamma  # slow, and needed only for many stacks

    known.sort(key=lambda it: (it.value, it.freedom))
    values = np.array([max(it.value, _SMALLEST_SHARE * middle) for it in known])
    half = np.array([it.freedom for it in known]) / 2
    logs = np.array([math.log(it) for it in values]) - digamma(half)
    logs += np.array([math.log(it) for it in half])
    mean = math.fsum(logs) / len(logs)
    between = math.fsum((logs - mean) ** 2) / (len(logs) - 1)
    excess = between - math.fsum(polygamma(1, half)) / len(half)
    if excess > 0:
        prior_half = _inverse_trigamma(excess)
        variance = math.exp(mean + float(digamma(prior_half)) - math.log(prior_half))
    else:
        prior_half = math.inf
        variance = math.fsum(values) / len(values)
    most = MAX_SHARE * (len(known) - FEW_STACKS) * 2 * math.fsum(half) / len(half)
    return VariancePrior(variance, min(2 * prior_half, most))


def pair_prior(
    prior: VariancePrior,
    arms: tuple[Variance | None, Variance | None],
    shares: tuple[float, float],
) -> VariancePrior:
    """The prior of the variance of differences between two stacks that ran in turns.

    An arm that is known to vary more than the others enters with its own variance.

    :param arms: what is known of each stack by itself
    :param shares: for each arm, the mean of one over its number of jobs in a turn
    """
    if not prior.freedom:
        return NO_PRIOR
    parts = [
        (share * variance, freedom)
        for share, (variance, freedom) in zip(shares, (_arm(prior, it) for it in arms), strict=True)
    ]
    total = math.fsum(variance for variance, _ in parts)
    if not total:
        return NO_PRIOR
    # Satterthwaite (1946, doi:10.2307/3002019), with shares of the total clear of underflow.
    freedom = 1 / math.fsum((variance / total) ** 2 / freedom for variance, freedom in parts)
    return VariancePrior(total, freedom)


def _arm(prior: VariancePrior, own: Variance | None) -> tuple[float, float]:
    if own is None or not own.value > _outlier_limit(own.freedom, prior.freedom) * prior.variance:
        return prior.variance, prior.freedom
    return own.value, float(own.freedom)


def _outlier_limit(freedom: float, prior_freedom: float) -> float:
    from scipy.special import fdtri  # slow, and needed only for many stacks

    return float(fdtri(freedom, prior_freedom, OUTLIER_QUANTILE))


def moderated(
    variance: FloatArray, freedom: FloatArray, priors: Sequence[VariancePrior]
) -> tuple[FloatArray, FloatArray]:
    """Pull variances towards their priors, unless they are far above them.

    :param variance: one a comparison; ``nan`` stays as it is
    :param freedom: their degrees of freedom
    :param priors: one a comparison
    :returns: moderated variances and their degrees of freedom

    >>> value, freedom = moderated(np.array([1.0]), np.array([4.0]), [VariancePrior(2.0, 4.0)])
    >>> value.tolist(), freedom.tolist()
    ([1.5], [8.0])
    """
    theirs = np.array([it.freedom for it in priors], dtype=np.float64)
    if not theirs.any():
        return variance, freedom
    from scipy.special import fdtri  # slow, and needed only for many stacks

    prior = np.array([it.variance if it.freedom else 0.0 for it in priors], dtype=np.float64)
    own = np.maximum(freedom, 1.0)
    limit = fdtri(own, np.where(theirs > 0, theirs, 1.0), OUTLIER_QUANTILE)
    shared = (theirs > 0) & (freedom > 0) & ~(variance > limit * prior)
    with np.errstate(divide="ignore", invalid="ignore"):
        mixed = (theirs * prior + freedom * variance) / (theirs + freedom)
    return np.where(shared, mixed, variance), np.where(shared, theirs + freedom, freedom)


def _inverse_trigamma(value: float) -> float:
    """The ``x`` for which trigamma is ``value`` (Smyth 2004, appendix)."""
    from scipy.special import polygamma

    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x
