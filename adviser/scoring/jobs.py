"""One job: what it contributes to a comparison, and when it is left out.

A job is one process, one start of its environment, one slot of time. Its repetitions
share the state of the machine, so a job gives one number, however many it repeated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from common.measurements import WITHIN_JOB_LIMIT, within_job_spread

#: Share of CPU time taken by the hypervisor above which a job is unstable.
STEAL_LIMIT = 0.01


@dataclass(frozen=True, slots=True)
class JobConditions:
    """What the machine reported while a job ran; what was not recorded stays at its default."""

    throttled: bool = False
    swapped: bool = False
    steal_share: float = 0.0


@dataclass(frozen=True, slots=True)
class JobEffect:
    """One job as a comparison sees it.

    :param log_rate: ln of the job's median rate, FLOP/s
    :param unstable_reason: why it is left out of comparisons, ``None`` if it counts
    """

    job_id: str
    log_rate: float
    unstable_reason: str | None = None


def job_log_rate(rates_flop_per_s: Sequence[float]) -> float:
    """``L``, the natural log of the median of a job's repetitions.

    Logs turn ratios of rates into differences, whose sign alone changes when the
    arms are swapped (Fleming & Wallace 1986, doi:10.1145/5666.5673).

    :param rates_flop_per_s: one rate a repetition, all finite and above zero, in any order
    :raises ValueError: if there is none, or one is not a positive finite number

    >>> job_log_rate([1.0, math.e, 100.0])
    1.0
    """
    if not rates_flop_per_s or not all(0 < rate < math.inf for rate in rates_flop_per_s):
        raise ValueError("a job's rates are one or more positive finite numbers")
    return math.log(median(rates_flop_per_s))


def instability(
    repetitions: Sequence[float], conditions: JobConditions | None = None
) -> str | None:
    """Why a job is unstable, or ``None``: decided by rule, never by eye.

    The rules look at the machine and at the spread within the job, never at how fast
    the job was, so that leaving jobs out cannot favour a stack.

    :param repetitions: times or rates of the job, above zero; may be empty
    :param conditions: what the machine reported, if it did
    :returns: the first of ``throttled``, ``swapped``, ``steal``, ``spread`` that applies

    >>> instability([1.0, 1.01, 1.02]) is None
    True
    >>> instability([1.0, 1.5, 2.0])
    'spread'
    """
    seen = conditions or JobConditions()
    rules = (
        ("throttled", seen.throttled),
        ("swapped", seen.swapped),
        ("steal", seen.steal_share > STEAL_LIMIT),
        ("spread", within_job_spread(repetitions) > WITHIN_JOB_LIMIT),
    )
    return next((reason for reason, applies in rules if applies), None)
