"""Noise of jobs: which jobs are unstable, how much the others vary, and how to report it.

``thoth inspect``, ``stacks``, ``advise`` and ``guard`` use the same rules and terms. The
stability rule, rule 2 of ``docs/statistics.md``, looks at the machine and at the spread within the
job, never at the speed of the job, so that excluding jobs cannot favour a stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from common.reasons import Instability

#: Share of CPU time taken by the hypervisor above which a job is unstable.
STEAL_LIMIT = 0.01

#: MAD / median of a job's repetitions above which a job is unstable.
WITHIN_JOB_LIMIT = 0.10

#: Coefficient of variation between the jobs of a stack above which people are warned: with ten
#: jobs each, two stacks have to differ by about as much before a difference can be claimed.
BETWEEN_JOBS_LIMIT = 0.25

#: Makes the median absolute deviation of normal noise estimate its standard deviation:
#: 1/Φ⁻¹(3/4) (Rousseeuw & Croux 1993, doi:10.1080/01621459.1993.10476408).
MAD_TO_SD = 1.4826

#: Reasons why jobs take no part in a comparison, as they follow a count. The first four are those
#: of the stability rule.
_REASONS = {
    "throttled": "throttled",
    "swapped": "swapped",
    "steal": "with stolen CPU time",
    "spread": "with scattered repetitions",
    "drift": "from before the machine changed",
    "other_host": "on another host",
    "unpaired": "without a partner",
}


@dataclass(frozen=True, slots=True)
class JobConditions:
    """What the machine reported while a job ran; what was not recorded stays at its default.

    :param steal_share: CPU time taken by the hypervisor, as a share within [0, 1]
    """

    throttled: bool = False
    swapped: bool = False
    steal_share: float = 0.0


def instability(
    repetitions: Sequence[float], conditions: JobConditions | None = None
) -> Instability | None:
    """Why a job is unstable, or ``None``: decided by rule, never by eye.

    :param repetitions: times or rates of the job, above zero; may be empty
    :param conditions: what the machine reported, if it did
    :returns: the first of ``throttled``, ``swapped``, ``steal``, ``spread`` that applies

    >>> instability([1.0, 1.01, 1.02]) is None
    True
    >>> instability([1.0, 1.5, 2.0])
    <Instability.SPREAD: 'spread'>
    """
    seen = conditions or JobConditions()
    rules = (
        (Instability.THROTTLED, seen.throttled),
        (Instability.SWAPPED, seen.swapped),
        (Instability.STEAL, seen.steal_share > STEAL_LIMIT),
        (Instability.SPREAD, within_job_spread(repetitions) > WITHIN_JOB_LIMIT),
    )
    return next((reason for reason, applies in rules if applies), None)


def within_job_spread(repetitions: Sequence[float]) -> float:
    """MAD / median of a job's repetitions, a dimensionless share of the median.

    The plain median absolute deviation, as the stability rule is stated; the factor that
    makes it comparable with a standard deviation is for estimates between jobs.

    :param repetitions: times or rates of one job, above zero; fewer than two give 0

    >>> within_job_spread([9.0, 10.0, 12.0])
    0.1
    """
    if len(repetitions) < 2:
        return 0.0
    middle = median(repetitions)
    return median(abs(value - middle) for value in repetitions) / middle


def robust_variation(values: Sequence[float]) -> float:
    """Coefficient of variation that one wild job cannot move: ``1.4826 · MAD / median``.

    :param values: rates or times, above zero, one or more, in any order
    :returns: dimensionless; 0.03 is a spread of 3 %
    :raises statistics.StatisticsError: if there is no value

    >>> round(robust_variation([98.0, 99.0, 100.0, 101.0, 500.0]), 6)
    0.014826
    """
    middle = median(values)
    return MAD_TO_SD * median(abs(value - middle) for value in values) / middle


def left_out_text(counts: Mapping[str, int]) -> str:
    """How many jobs are left out of a comparison, by reason.

    >>> left_out_text({"spread": 2, "unpaired": 3})
    '2 with scattered repetitions, 3 without a partner'
    """
    return ", ".join(f"{count} {_REASONS.get(it, it)}" for it, count in counts.items() if count)


def noise_warnings(
    stack: str, jobs: int, left_out: Mapping[str, int], variation: float | None
) -> Iterator[str]:
    """What a person should know at once about the noise of one stack's jobs.

    :param stack: its label
    :param jobs: all of them
    :param left_out: how many of them no comparison uses, by reason
    :param variation: between the others, :func:`robust_variation`

    >>> list(noise_warnings("numpy 2.3.5", 10, {"spread": 6}, 0.97))
    ... # doctest: +NORMALIZE_WHITESPACE
    ['numpy 2.3.5: comparisons leave out 6 of 10 jobs',
     'numpy 2.3.5: the jobs spread by 97 %, so only large differences can be settled']
    """
    if 2 * sum(left_out.values()) > jobs:
        yield f"{stack}: comparisons leave out {sum(left_out.values())} of {jobs} jobs"
    if variation is not None and variation > BETWEEN_JOBS_LIMIT:
        share = f"{100 * variation:.0f} %"
        yield f"{stack}: the jobs spread by {share}, so only large differences can be settled"
