"""How many jobs a verdict needs, and how to spend the time within a job."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

#: Below this many jobs an arm nothing is claimed: of the 20 ways to deal six jobs into
#: three and three, the most extreme one alone has a two-sided chance of 10 %.
MIN_JOBS = 5

#: Chance of finding what is there that jobs are planned for (Cohen 1988).
POWER = 0.8


def jobs_needed(
    log_sd: float,
    log_difference: float,
    log_margin: float,
    *,
    alpha: float = 0.05,
    power: float = POWER,
) -> int:
    """Jobs an arm to find a difference beyond the margin: rule of thumb for planning.

    ``2 (z₁₋α + z₁₋β)² s² / (Δ − ln(1+δ))²``, the normal approximation for two equal
    arms (Chow, Shao & Wang 2008, "Sample Size Calculations in Clinical Research", ch. 3),
    and never below :data:`MIN_JOBS`.

    :param log_sd: standard deviation of log rates between jobs
    :param log_difference: true difference that must not be missed, natural log, either sign
    :param log_margin: ``ln(1 + δ)``, zero or more
    :raises ValueError: if the difference is not beyond the margin

    >>> jobs_needed(log_sd=0.03, log_difference=math.log(1.05), log_margin=math.log(1.02))
    14
    """
    beyond = abs(log_difference) - log_margin
    if beyond <= 0:
        raise ValueError("a difference within the margin is not found by more jobs")
    return _jobs(log_sd / beyond, alpha, 1 - power)


def jobs_for_equivalence(
    log_sd: float,
    log_difference: float,
    log_margin: float,
    *,
    alpha: float = 0.05,
    power: float = POWER,
) -> int:
    """Jobs an arm to show that a difference lies within the margin (TOST).

    ``2 (z₁₋α + z₁₋β⁄₂)² s² / (ln(1+δ) − |Δ|)²``: both one-sided tests must succeed, so β is
    shared between them (Chow, Shao & Wang 2008, ch. 3); never below :data:`MIN_JOBS`.

    :raises ValueError: if the difference is not within the margin

    >>> jobs_for_equivalence(log_sd=0.01, log_difference=0.0, log_margin=math.log(1.02))
    5
    """
    inside = log_margin - abs(log_difference)
    if inside <= 0:
        raise ValueError("a difference beyond the margin is not shown to be within it")
    return _jobs(log_sd / inside, alpha, (1 - power) / 2)


def jobs_to_verdict(
    log_sd: float, log_difference: float, log_margin: float, *, alpha: float, candidates: int
) -> int:
    """Jobs an arm until a verdict can be expected, if the difference is the one seen so far.

    Beyond the margin those of :func:`jobs_needed`, at the level of Holm's first step, else
    those of :func:`jobs_for_equivalence`. The distance to the margin counts as half the
    margin at least: a stack that sits on the border would need jobs without end.

    :param candidates: how many are tested together, one or more
    """
    distance = max(abs(abs(log_difference) - log_margin), log_margin / 2)
    if abs(log_difference) > log_margin:
        return jobs_needed(log_sd, log_margin + distance, log_margin, alpha=alpha / candidates)
    return jobs_for_equivalence(log_sd, log_margin - distance, log_margin, alpha=alpha)


def repetitions_per_job(
    job_cost_s: float, repetition_cost_s: float, within_sd: float, between_sd: float
) -> int:
    """Repetitions a job that make the mean most precise for the time spent.

    For whoever plans inspections; what a job costs is known to nobody else.

    ``⌈√((c_job/c_rep) · (s²_within/s²_between))⌉``, at least one (Kalibera & Jones 2013,
    doi:10.1145/2464157.2464160); the rest of the budget goes into jobs.

    :param job_cost_s: what a job costs before its first repetition, s
    :param repetition_cost_s: what one repetition costs, s, above zero
    :param within_sd: standard deviation between the repetitions of a job
    :param between_sd: standard deviation between jobs, same unit, above zero
    :raises ValueError: if a cost or the spread between jobs is zero or less

    >>> repetitions_per_job(60.0, 0.5, within_sd=0.01, between_sd=0.03)
    4
    """
    if job_cost_s <= 0 or repetition_cost_s <= 0 or between_sd <= 0:
        raise ValueError("costs and the spread between jobs are above zero")
    return max(1, math.ceil(math.sqrt(job_cost_s / repetition_cost_s) * within_sd / between_sd))


def _jobs(sd_per_distance: float, alpha: float, beta: float) -> int:
    return max(MIN_JOBS, math.ceil(2 * (_z(alpha, beta) * sd_per_distance) ** 2))


@lru_cache(maxsize=256)
def _z(alpha: float, beta: float) -> float:
    normal = NormalDist()
    return normal.inv_cdf(1 - alpha) + normal.inv_cdf(1 - beta)
