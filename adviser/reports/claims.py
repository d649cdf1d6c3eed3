"""Claims as reports write them: what nobody knows is null, and no number stands in for it."""

from __future__ import annotations

import math
from typing import Any

from adviser.reports.values import plain
from adviser.scoring.assessments import Claim


def claim_document(it: Claim) -> dict[str, Any]:
    """A claim as JSON values.

    Where the error is unknown, as of one job an arm, neither end of the interval is bounded, and
    nothing can be said of the effect that would last: ``interval_low_pct``, ``interval_high_pct``
    and ``effect_pct`` are ``None``. What was observed is told all the same.
    """
    found: dict[str, Any] = plain(it)
    if not bounded(it):
        found |= {"interval_low_pct": None, "interval_high_pct": None, "effect_pct": None}
    return found


def bounded(it: Claim) -> bool:
    """Whether the error is known, so that the interval has two ends."""
    return math.isfinite(it.interval_low_pct) and math.isfinite(it.interval_high_pct)
