"""Looking again and again: how much of α each look may spend.

For whoever plans inspections ahead; no answer uses it yet, since none knows how many are planned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist

#: Planned looks at one comparison, at most; more of them cost more than they find.
MAX_LOOKS = 5


def alpha_spent(share: float, alpha: float = 0.05) -> float:
    """What may be spent of a one-sided α by the time that a share of the jobs has run.

    ``2 (1 − Φ(z₁₋α⁄₂ / √share))``: next to nothing early, all of it at the end (O'Brien & Fleming
    1979, doi:10.2307/2530245; as a spending function Lan & DeMets 1983,
    doi:10.1093/biomet/70.3.659).

    :param share: of the jobs that were planned, within [0, 1]

    >>> alpha_spent(1.0), alpha_spent(0.0), round(alpha_spent(0.5), 4)
    (0.05, 0.0, 0.0056)
    """
    if not 0 <= share <= 1:
        raise ValueError("a share is within 0 and 1")
    if share in (0, 1):
        return alpha * share
    normal = NormalDist()
    return 2 * (1 - normal.cdf(normal.inv_cdf(1 - alpha / 2) / math.sqrt(share)))


def alpha_of_looks(shares: Sequence[float], alpha: float = 0.05) -> list[float]:
    """The level of each planned look, so that all of them together err with a chance of α.

    What a look may newly spend is its level. That holds whatever the looks have in common
    (Bonferroni), so it is on the safe side of the exact boundaries.

    :param shares: of the planned jobs that each look has, ascending, at most :data:`MAX_LOOKS`

    >>> [round(level, 4) for level in alpha_of_looks([0.5, 1.0])]
    [0.0056, 0.0444]
    """
    if len(shares) > MAX_LOOKS:
        raise ValueError(f"at most {MAX_LOOKS} looks are planned")
    spent = [alpha_spent(share, alpha) for share in shares]
    if any(later <= sooner for sooner, later in pairwise(spent)):
        raise ValueError("each look has more jobs than the one before")
    return [now - sooner for now, sooner in zip(spent, [0.0, *spent], strict=False)]
