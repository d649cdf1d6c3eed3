"""When a job is unstable: one rule, for those who record jobs and those who compare them.

Rule 2 of ``docs/statistics.md``. It looks at the machine and at the spread within the job,
never at how fast the job was, so that leaving jobs out cannot favour a stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from common.reasons import Instability

#: Share of CPU time taken by the hypervisor above which a job is unstable.
STEAL_LIMIT = 0.01

#: MAD / median of a job's repetitions above which a job is unstable.
WITHIN_JOB_LIMIT = 0.10


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
