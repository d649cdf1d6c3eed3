"""Variance within jobs and between jobs, and how many repetitions a job should have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated

from adviser.scoring.comparisons import MIN_DELTA
from model.declared_fields import Field

#: Quantiles of the normal distribution for α = 5 % (one-sided) and a power of 80 %.
_Z_ALPHA, _Z_BETA = 1.6449, 0.8416
#: Difference for which the number of jobs is stated.
PLANNED_DIFFERENCE = 0.05
#: Upper limit of recommended repetitions; a job should end within minutes.
MOST_REPETITIONS = 100_000


@dataclass(frozen=True, slots=True)
class VarianceComponents:
    """Variances of log rates; their square roots are relative standard deviations.

    :param within: variance of the repetitions of a job
    :param between: variance of the jobs, without the part that comes from their repetitions
    :param repetitions: typical number of repetitions of a job
    """

    within: float
    between: float
    jobs: int
    repetitions: float

    @property
    def of_a_job(self) -> float:
        """Variance of one job's mean with the typical number of repetitions."""
        return self.between + self.within / self.repetitions

    @property
    def within_share(self) -> float | None:
        """Share of the repetitions in the variance of a job; ``None`` without any variance."""
        total = self.of_a_job
        return self.within / self.repetitions / total if total > 0 else None


def variance_components(jobs: Sequence[Sequence[float]]) -> VarianceComponents | None:
    """Estimate both variances by analysis of variance (one-way, random effects).

    :param jobs: rates of the repetitions of each job, positive
    :returns: ``None`` unless two jobs have two repetitions each
    """
    logs = [[math.log(it) for it in job] for job in jobs if len(job) > 1]
    if len(logs) < 2:
        return None
    means = [math.fsum(job) / len(job) for job in logs]
    squares = sorted(
        (value - mean) ** 2 for job, mean in zip(logs, means, strict=True) for value in job
    )
    within = math.fsum(squares) / sum(len(job) - 1 for job in logs)
    middle = math.fsum(sorted(means)) / len(means)
    of_means = math.fsum(sorted((it - middle) ** 2 for it in means)) / (len(means) - 1)
    noise = within * math.fsum(sorted(1 / len(job) for job in logs)) / len(logs)
    return VarianceComponents(
        within, max(0.0, of_means - noise), len(logs), median(len(job) for job in logs)
    )


@dataclass(frozen=True, slots=True)
class RepetitionAdvice:
    """How to divide a budget between jobs and repetitions."""

    repetitions: Annotated[
        int | None, Field("Repetitions of a job; null if only repetitions vary.", 12)
    ]
    job_cost_s: Annotated[float, Field("Time of a job before its repetitions.", 1.5, unit="s")]
    repetition_cost_s: Annotated[float, Field("Time of a repetition.", 0.02, unit="s")]
    within: float
    between: float
    jobs: Annotated[
        int | None, Field("Jobs of each stack that show a difference of 5 % in 80 % of cases.", 40)
    ]
    exact: Annotated[
        bool, Field("Whether this time is known; if not, `repetitions` is an upper limit.")
    ]


def repetition_advice(
    within: float,
    between: float,
    job_cost_s: float,
    repetition_cost_s: float,
    *,
    exact: bool = True,
) -> RepetitionAdvice:
    """``r = ⌈√(c_job / c_rep · s²_within / s²_between)⌉`` (Kalibera & Jones 2013).

    This number of repetitions makes the variance of a mean smallest for a given budget of time.
    The costs are at least a nanosecond.

    >>> repetition_advice(0.01**2, 0.03**2, 60.0, 0.5).repetitions
    4
    """
    job_cost, repetition_cost = max(job_cost_s, 1e-9), max(repetition_cost_s, 1e-9)
    repetitions = None
    if between > 0:
        best = math.sqrt(job_cost / repetition_cost * within / between)
        repetitions = min(max(1, math.ceil(best)), MOST_REPETITIONS)
    variance = between + within / (repetitions or MOST_REPETITIONS)
    return RepetitionAdvice(
        repetitions, job_cost, repetition_cost, within, between, jobs_needed(variance), exact
    )


def jobs_needed(variance: float, difference: float = PLANNED_DIFFERENCE) -> int | None:
    """Jobs of each stack for a verdict on a difference (rule 6 of the statistics).

    ``2 (z₁₋α + z₁₋β)² s² / (Δ − ln(1 + δ))²``, at least five.

    :param variance: of a job's log rate
    :param difference: as a share of the rate, larger than δ
    """
    margin = math.log1p(difference) - math.log1p(MIN_DELTA)
    needed = 2 * (_Z_ALPHA + _Z_BETA) ** 2 * variance / margin**2
    return max(5, math.ceil(needed)) if math.isfinite(needed) else None
