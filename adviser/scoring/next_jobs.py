"""Rank undetermined comparisons: which one to measure next.

The rank is the chance that further jobs settle a comparison, times the size of the difference,
divided by the number of jobs. ``thoth stacks`` shows :func:`further_jobs`, reports show
:func:`next_claims`.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from adviser.scoring.assessment_types import Claim
from adviser.scoring.comparisons import Comparison
from adviser.scoring.effects import Effect, Effects, effects_of, intervals
from adviser.scoring.lazy_numpy import np
from adviser.scoring.sample_needs import INSPECT, can_settle, settling_text
from model.declared_fields import STACK_LABEL, Field


@dataclass(frozen=True, slots=True)
class FurtherJobs:
    """An undetermined comparison, and the number of jobs that it needs.

    :param baseline: label of the baseline
    """

    label: Annotated[str, STACK_LABEL]
    baseline: str
    jobs: Annotated[int, Field("Further jobs of the stack.", 3)]
    baseline_jobs: Annotated[int, Field("Further jobs of the baseline.", 3)]
    chance: Annotated[
        float, Field("Probability that they settle the comparison; 0 if unknown.", 0.81)
    ]
    settled_by: Annotated[
        str, Field("Jobs that settle the comparison here, and their duration.", "3 more jobs each")
    ]


def further_jobs(
    comparisons: Sequence[Comparison], command: str = INSPECT
) -> tuple[FurtherJobs, ...]:
    """Undetermined comparisons, the most useful to measure first.

    Candidates that can no longer be the best are left out. So are comparisons that the jobs of a
    night would not settle. Comparisons of equal rank, such as those with unknown errors, are
    ordered by the number of jobs.

    :param comparisons: all comparisons that were tested together, with the same baseline
    :param command: runs the jobs
    """
    ranked = []
    for comparison, possible in zip(comparisons, may_be_best(comparisons), strict=True):
        more = max(comparison.jobs_missing, comparison.baseline_jobs_missing)
        if possible and more and can_settle(comparison):
            further = FurtherJobs(
                comparison.candidate,
                comparison.baseline,
                comparison.jobs_missing,
                comparison.baseline_jobs_missing,
                comparison.chance,
                settling_text(comparison, command=command),
            )
            size = abs(comparison.d) if comparison.chance else 0.0
            ranked.append((-comparison.chance * size / more, more, further))
    return tuple(it for *_, it in sorted(ranked, key=lambda it: (*it[:2], it[2].label)))


def next_claims(claims: Sequence[Claim]) -> tuple[Claim, ...]:
    """Undetermined claims about one version on the target, the most useful to measure first.

    A claim is left out if the version can no longer be the best of its package in that measurement,
    or if the jobs of a night would not settle the claim.
    """
    possible = (
        it
        for it in open_claims(claims)
        if max(it.jobs_missing, it.baseline_jobs_missing) and can_settle(it)
    )
    return tuple(sorted(possible, key=_rank))


def open_claims(claims: Sequence[Claim], widening: float = 1.0) -> list[Claim]:
    """Undetermined claims about one version on the target that may still be the best.

    :param widening: factor on the 95 % intervals that decide this, for several looks
    """
    best: dict[tuple[str | None, str, str], float] = defaultdict(lambda: -math.inf)
    here = [it for it in claims if it.purl is not None and it.here]
    for claim in here:
        low = _widened(claim.observed_pct, claim.interval_low_pct, widening)
        best[_competition(claim)] = max(best[_competition(claim)], low)
    return [
        claim
        for claim in here
        if not claim.verdict.settled
        and _widened(claim.observed_pct, claim.interval_high_pct, widening)
        >= best[_competition(claim)]
    ]


def _widened(observed_pct: float, end_pct: float, widening: float) -> float:
    """An end of an interval in natural logs, further away from the observed difference.

    >>> round(_widened(0.0, 1.0, 2.0), 4)
    0.0199
    """
    if not math.isfinite(end_pct) or end_pct <= -100:
        return math.copysign(math.inf, end_pct)
    observed = math.log1p(observed_pct / 100)
    return observed + widening * (math.log1p(end_pct / 100) - observed)


def _competition(claim: Claim) -> tuple[str | None, str, str]:
    return claim.package, claim.comparison_key, claim.baseline_stack


def _rank(claim: Claim) -> tuple[float, int, str, str]:
    more = max(claim.jobs_missing, claim.baseline_jobs_missing)
    size = abs(math.log1p(claim.observed_pct / 100)) if claim.chance else 0.0
    return -claim.chance * size / more, more, claim.purl or "", claim.comparison_key


def may_be_best(comparisons: Sequence[Comparison]) -> list[bool]:
    """Whether each candidate may still be the best: its upper bound reaches the best lower bound.

    A candidate with an unknown error can always turn out to be the best.
    """
    if not comparisons:
        return []
    effects = effects_of(
        [Effect(it.d, it.standard_error, it.degrees_of_freedom) for it in comparisons]
    )
    known = np.isfinite(effects.d) & np.isfinite(effects.standard_error)
    low, high = intervals(
        Effects(np.where(known, effects.d, 0.0), effects.standard_error, effects.degrees_of_freedom)
    )
    low, high = np.where(known, low, -np.inf), np.where(known, high, np.inf)
    return [bool(it) for it in high >= np.max(low)]
