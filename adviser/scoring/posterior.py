"""The posterior distribution of the speeds of a package's versions, and the version to choose.

Claims keep a bounded error rate. A choice is a decision under uncertainty: somebody must take one
version, and the newest is only one of them. So versions are chosen by what is likely, and claims
are made of what is settled (:mod:`adviser.scoring.verdicts`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: If differences as large as these are more likely than this among equal versions, nothing is
#: known, and newness decides.
GATE = 0.05

#: A version replaces a newer one only if it is faster with at least this probability.
LIKELY = 0.95


@dataclass(frozen=True, slots=True)
class Speeds:
    """Posterior distribution of the log speeds of several versions, measured in one series.

    :param means: one for each version, natural log, relative to any of them
    :param variances: of each version's own part
    :param pulls: by how much each mean follows the common mean, 0 to 1
    :param common: variance of the common mean
    """

    means: tuple[float, ...]
    variances: tuple[float, ...]
    pulls: tuple[float, ...]
    common: float

    def difference(self, ours: int, theirs: int) -> tuple[float, float]:
        """Mean and variance of the difference between two versions."""
        pull = self.pulls[ours] - self.pulls[theirs]
        variance = self.variances[ours] + self.variances[theirs] + pull**2 * self.common
        return self.means[ours] - self.means[theirs], variance


def posterior(effects: Sequence[float], variances: Sequence[float]) -> Speeds:
    """Pull the measured effects of versions towards their mean, as far as noise explains them.

    The versions' true log speeds are normal about a common mean with variance τ² (DerSimonian &
    Laird 1986, doi:10.1016/0197-2456(86)90046-2). If the effects do not differ significantly
    (Cochran's Q, 5 %), τ² is 0 and all versions count as equal. Nothing depends on which version
    the effects are relative to.

    :param effects: natural logs, relative to any stack
    :param variances: squared errors of each effect's own part, positive

    >>> [round(it, 3) for it in posterior([0.0, 0.0, 0.3], [0.001, 0.001, 0.001]).means]
    [0.003, 0.003, 0.293]
    >>> posterior([0.0, 0.01], [0.01, 0.01]).variances
    (0.0, 0.0)
    """
    weights = [1 / it for it in variances]
    total, freedom = math.fsum(weights), len(effects) - 1
    mean = math.fsum(w * d for w, d in zip(weights, effects, strict=True)) / total
    q = math.fsum(w * (d - mean) ** 2 for w, d in zip(weights, effects, strict=True))
    scale = total - math.fsum(w**2 for w in weights) / total
    if freedom == 0 or _chance_of_more(q, freedom) >= GATE or q <= freedom:
        equal, none, pulled = ((value,) * len(effects) for value in (mean, 0.0, 1.0))
        return Speeds(equal, none, pulled, 1 / total)
    spread = (q - freedom) / scale
    weights = [1 / (it + spread) for it in variances]
    total = math.fsum(weights)
    mean = math.fsum(w * d for w, d in zip(weights, effects, strict=True)) / total
    kept = [spread / (spread + it) for it in variances]
    return Speeds(
        tuple(mean + k * (d - mean) for k, d in zip(kept, effects, strict=True)),
        tuple(k * it for k, it in zip(kept, variances, strict=True)),
        tuple(1 - k for k in kept),
        1 / total,
    )


def _chance_of_more(q: float, freedom: int) -> float:
    from scipy.special import chdtrc  # slow, and needed only with measurements

    return float(chdtrc(freedom, q))


@dataclass(frozen=True, slots=True)
class Difference:
    """Expected difference between two versions, over all indicators.

    :param mean: natural log; positive if the first is faster
    :param margin: ``ln(1 + δ)``
    """

    mean: float
    variance: float
    margin: float

    @property
    def probability(self) -> float:
        """The probability that the first is faster by more than δ/2."""
        from scipy.special import ndtr  # slow, and needed only with measurements

        beyond = self.mean - self.margin / 2
        if not self.variance:
            return float(beyond > 0)
        return float(ndtr(beyond / math.sqrt(self.variance)))

    @property
    def likely(self) -> bool:
        """Whether the first is likely faster, by an amount that matters."""
        return self.mean > 0 and self.probability >= LIKELY


#: The expected difference between the versions at two places; ``None`` if no series has both.
Differences = Callable[[int, int], Difference | None]

#: Loss of a newer version that was never compared with an older one that is preferred to it.
_UNCOMPARED_LOSS = 0.01


def chosen(places: Sequence[int], difference: Differences) -> int:
    """The version to choose: the newest, unless others are likely faster than it.

    Of the versions that are likely faster than the newest, those within δ/2 of the best compete,
    and the newest of these is chosen.

    :param places: of the versions, newest first
    """
    newest, *older = places
    gains = {
        it: gain.mean
        for it in older
        if (gain := difference(it, newest)) is not None and gain.likely
    }
    if not gains:
        return newest
    best = max(gains, key=gains.__getitem__)
    return next(it for it in gains if it == best or _competes(difference(best, it)))


def _competes(lead: Difference | None) -> bool:
    """Whether a version competes with the best one, given the lead of the best."""
    return lead is not None and lead.mean < lead.margin / 2


def losses(count: int, difference: Differences) -> list[tuple[float, int]]:
    """What each version loses compared with the versions that are preferred to it.

    Versions are ranked by choosing one after the other, each from those that are left. So the
    preferred version of any part of the ranking is mostly the one that would be chosen from it.

    :param count: number of versions; places count from 0, newest first
    :returns: for each version the expected loss, natural log, and the place of the version that it
        loses to; versions without a loss lose to themselves
    """
    left, ranked = list(range(count)), list[int]()
    result = [(0.0, it) for it in range(count)]
    while left:
        place = chosen(left, difference)
        left.remove(place)
        for better in ranked:
            gap = difference(better, place)
            loss = gap.mean if gap is not None and gap.likely else 0.0
            if better > place:
                # An older version is preferred, so newness must not decide.
                least = _UNCOMPARED_LOSS if gap is None else max(gap.mean, gap.margin / 2)
                loss = result[better][0] + least
            if loss > result[place][0]:
                result[place] = loss, better
        if ranked and result[ranked[-1]][0] > result[place][0]:
            result[place] = result[ranked[-1]]
        ranked.append(place)
    return result
