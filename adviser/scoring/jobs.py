"""One job: what it contributes to a comparison.

A job is one process, one start of its environment, one slot of time. Its repetitions
share the state of the machine, so a job gives one number, however many it repeated.
Jobs of one run, which is one inspection of one stack, share what the machine was like that
night; :mod:`adviser.scoring.runs` says what follows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

#: Below this many jobs an arm nothing is claimed: of the 20 ways to deal six jobs into
#: three and three, the most extreme one alone has a two-sided chance of 10 %.
MIN_JOBS = 5


class Place(NamedTuple):
    """Where a job ran and when; ``None`` where nobody said.

    :param block: jobs of one block on one host ran in turns
    :param run: jobs of one run on one host share the state that the machine was in; where it is
        not known, a job has nothing in common with others
    """

    host: str | None = None
    block: str | None = None
    run: str | None = None


UNKNOWN_PLACE = Place()


def job_log_rate(rates: Sequence[float]) -> float:
    """``L``, the natural log of the median of a job's repetitions.

    Logs turn ratios of rates into differences, whose sign alone changes when the
    arms are swapped (Fleming & Wallace 1986, doi:10.1145/5666.5673).

    :param rates: one rate a repetition, all finite and above zero, in any order
    :raises ValueError: if there is none, or one is not a positive finite number

    >>> job_log_rate([1.0, math.e, 100.0])
    1.0
    """
    if len(rates) == 1 and 0 < rates[0] < math.inf:  # as nearly all
        return math.log(rates[0])
    if not rates or not all(0 < rate < math.inf for rate in rates):
        raise ValueError("a job's rates are one or more positive finite numbers")
    return math.log(median(rates))
