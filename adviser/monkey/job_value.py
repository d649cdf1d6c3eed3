"""The value of further jobs: how much they are expected to change verdicts that users ask for.

The value of further jobs is the size of the difference that they are expected to settle, times how
often the package is asked for, divided by the time that they take. Each comparison has the number
of further jobs that makes this value greatest: few jobs rarely change a verdict, many take long.
Versions that can no longer be the best are left out (successive elimination; Even-Dar, Mannor &
Mansour 2006, JMLR 7:1079-1105).

This module only ranks. It makes no claim, so it does not change error rates. Judging after each
night means several looks at the same comparison; :mod:`adviser.changes` plans them so that
the error rate holds, whatever the ranking: the number of jobs at each look is fixed in advance.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, mean

from adviser.changes import LOOK_ALPHA
from adviser.scoring.assessment_types import Claim
from adviser.scoring.effects import Effects
from adviser.scoring.lazy_numpy import np
from adviser.scoring.next_jobs import open_claims
from adviser.scoring.sample_needs import EFFECT_SDS, NONE_SHARES, Need, OpenEffects, effect_prior
from adviser.scoring.samples import MIN_JOBS
from adviser.scoring.stack_pairs import name_of
from model.packages.identity import Purl

#: Expected chance and size of a difference before anything is measured, from the same prior as
#: predictions of further jobs.
_PRIOR_CHANCE = 1 - mean(NONE_SHARES)
_PRIOR_SIZE = mean(EFFECT_SDS) * math.sqrt(2 / math.pi)

#: Value below which jobs are not worth their time, by default: 200 hours of them are expected to
#: settle less than a difference of 1 %. See :class:`JobValue`. With ten times this value, searches
#: on planted truths stopped before all differences of 8 to 12 % were settled.
WORTHWHILE = 0.005

#: Numbers of further jobs of each stack that are considered, as shares of the jobs so far.
_HORIZONS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)
#: Half the width of a 95 % interval, in standard errors.
_HALF_WIDTH = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class JobValue:
    """Jobs that could be run next, and their value.

    :param purl: the version to measure
    :param stack: digest of the measured stack with this version; ``None`` if none was measured
    :param jobs: number of further jobs of the version and of the version compared with it
    :param chance: chance that the verdict changes to faster or slower
    :param size: size of the difference in that case, natural log
    :param minutes: expected duration of all these jobs
    :param value: chance times weight times size per time; in per cent of speed for each hour of
        jobs
    """

    purl: Purl
    stack: str | None
    jobs: int
    chance: float
    size: float
    minutes: float
    value: float

    @property
    def reason(self) -> str:
        """Why these jobs are next, for a person."""
        size = math.expm1(self.size)
        known = "nothing is measured yet; " if self.stack is None else ""
        chance = f"with a chance of {100 * self.chance:.0f} %"
        return f"{known}{self.jobs} jobs settle a difference of about {100 * size:.1f} % {chance}"


@dataclass(frozen=True, slots=True)
class _FurtherJobs:
    """The most valuable number of further jobs of a comparison, of both stacks together."""

    jobs: int
    chance: float
    size: float


def job_values(
    claims: Sequence[Claim],
    unmeasured: Iterable[Purl],
    weights: Mapping[str, float],
    job_minutes: Mapping[str, float],
    *,
    usual_minutes: float = 1.0,
    threshold: float = 0.0,
) -> list[JobValue]:
    """Jobs by value, the most valuable first; empty if no job is worth its time.

    :param claims: claims about single versions on the target
    :param unmeasured: versions that can be installed and have no claim
    :param weights: how often each package is asked for or watched, by name; 1 by default
    :param job_minutes: mean duration of a job by package name, from measured jobs
    :param usual_minutes: the same for packages without measured jobs
    :param threshold: jobs of a lower value are left out
    """

    def valued(purl: Purl, stack: str | None, further: _FurtherJobs) -> JobValue:
        name = name_of(purl)
        minutes = further.jobs * job_minutes.get(name, usual_minutes)
        size = further.chance * further.size * weights.get(name, 1.0)
        value = value_of_jobs(size, minutes)
        return JobValue(purl, stack, further.jobs, further.chance, further.size, minutes, value)

    values = [
        valued(claim.purl, claim.stack, further)
        for claim, further in _further(claims)
        if claim.purl is not None
    ]
    values += [valued(purl, None, _FIRST_JOBS) for purl in sorted(unmeasured)]
    kept = [it for it in values if it.value >= threshold and it.value > 0]
    return sorted(kept, key=lambda it: (-it.value, it.purl, it.stack or ""))


def value_of_jobs(settled_size: float, minutes: float) -> float:
    """The value of jobs, in per cent of speed for each hour of them.

    :param settled_size: size of the difference that they are expected to settle, natural log, times
        the weight of the package
    :param minutes: expected duration of all these jobs

    >>> value_of_jobs(0.01, 30)
    2.0
    """
    return 100 * settled_size / (minutes / 60)


#: For what was not measured, or too little for a prediction.
_FIRST_JOBS = _FurtherJobs(2 * MIN_JOBS, _PRIOR_CHANCE, _PRIOR_SIZE)


def _widening(claims: int) -> float:
    """Factor on 95 % intervals so that all hold together at all planned looks (Bonferroni).

    Without it, one of the best versions is soon left out by chance.

    >>> round(_widening(19), 2)
    1.77
    """
    return NormalDist().inv_cdf(1 - LOOK_ALPHA / (2 * max(claims, 1))) / _HALF_WIDTH


def _further(claims: Sequence[Claim]) -> Iterator[tuple[Claim, _FurtherJobs]]:
    """The most valuable number of further jobs of each open claim.

    Claims that are compared with one baseline inform each other about the size of differences.
    """
    predictable: dict[tuple[str, str], list[Claim]] = defaultdict(list)
    for claim in open_claims(claims, _widening(len(claims))):
        if claim.tested and claim.needs in _PREDICTABLE and math.isfinite(_error(claim)):
            predictable[claim.comparison_key, claim.baseline_stack].append(claim)
        else:
            jobs = claim.jobs_missing + claim.baseline_jobs_missing
            yield claim, _FurtherJobs(jobs or 2 * MIN_JOBS, _PRIOR_CHANCE, _PRIOR_SIZE)
    for series, group in predictable.items():
        alike = [it for it in claims if (it.comparison_key, it.baseline_stack) == series]
        yield from zip(group, _predicted(group, alike, len(claims)), strict=True)


#: Needs for which the effect of further jobs can be predicted.
_PREDICTABLE = (Need.JOBS, Need.RUNS, Need.MARGIN)


def _predicted(
    claims: Sequence[Claim], alike: Sequence[Claim], family: int
) -> Iterator[_FurtherJobs]:
    """The number of further jobs with the greatest expected size of a settled difference per job.

    :param alike: all claims of the series, from which the sizes of differences are learned
    :param family: number of claims that share an error rate
    """
    so_far = np.array([float(min(it.runs, it.baseline_runs)) for it in claims])
    more = np.ceil(so_far[:, None] * np.array(_HORIZONS))
    comparisons = OpenEffects(
        _effects(claims),
        so_far,
        np.array([math.log1p(it.delta_pct / 100) for it in claims]),
        so_far - 1,
        np.full(len(claims), LOOK_ALPHA / family),
    )
    prior = effect_prior(_effects(alike))
    sizes = comparisons.settled_size(more, prior)
    chances, _ = comparisons.with_more(more, prior)
    best = np.argmax(sizes / more, axis=1)
    for row, column in enumerate(best.tolist()):
        chance, size = float(chances[row, column]), max(0.0, float(sizes[row, column]))
        yield _FurtherJobs(2 * int(more[row, column]), chance, size / chance if chance > 0 else 0.0)


def _effects(claims: Sequence[Claim]) -> Effects:
    observed = np.array([math.log1p(it.observed_pct / 100) for it in claims])
    # The interval already allows for few degrees of freedom.
    return Effects(observed, np.array([_error(it) for it in claims]), np.full(len(claims), 1e6))


def _error(claim: Claim) -> float:
    """Standard error of the difference, natural log, from its interval; infinite if unknown."""
    if claim.interval_low_pct <= -100 or not math.isfinite(claim.interval_high_pct):
        return math.inf
    width = math.log1p(claim.interval_high_pct / 100) - math.log1p(claim.interval_low_pct / 100)
    return width / 2 / _HALF_WIDTH
