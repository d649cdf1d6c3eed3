"""What an undetermined comparison lacks: jobs, turns, runs, hosts, or what no jobs can give."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

from adviser.scoring.estimates import Estimate, Method
from adviser.scoring.judging import Verdict
from adviser.scoring.planning import MIN_JOBS, POWER, jobs_to_verdict

#: Jobs an arm beyond which nobody is told to go on: the difference is too close to δ.
MAX_PLANNED = 1000

#: Hosts of one class beyond which nobody is told to go on.
MAX_HOSTS = 50


class Need(StrEnum):
    """What an undetermined comparison lacks; the value is stored, never renamed."""

    #: Further jobs: pairs that ran in turns, or runs of a job each.
    JOBS = "jobs"
    #: That the stacks run in turns, or in more runs: what a run does to a job is not known.
    TURNS = "turns"
    #: Further runs, each with a job or more.
    RUNS = "runs"
    #: Jobs in the circumstances that are asked about.
    HERE = "here"
    #: Jobs on a host that both stacks run on, or on further ones.
    HOSTS = "hosts"
    #: The difference is so close to δ that no number of jobs that anybody runs tells.
    MARGIN = "margin"


@dataclass(frozen=True, slots=True)
class Lack:
    """What a comparison lacks.

    :param need: ``None`` where it is settled
    :param jobs: further ones of the candidate until a verdict can be expected, an estimate; of
        :attr:`Need.RUNS` each in a run of its own; 0 where it is not a matter of jobs
    :param baseline_jobs: the same of the baseline
    """

    need: Need | None = None
    jobs: int = 0
    baseline_jobs: int = 0


_NOTHING = Lack()


@dataclass(frozen=True, slots=True)
class Lacking:
    """Tells what undetermined comparisons lack that are tested together.

    :param log_margin: ``ln(1 + δ)``
    :param tested: how many comparisons are tested together
    """

    log_margin: float
    alpha: float
    tested: int

    def of(self, it: Estimate, verdict: Verdict, *, elsewhere: bool = False) -> Lack:
        """What one of them lacks.

        :param elsewhere: whether it was measured in other circumstances than asked about; no
            number of jobs there tells what would be seen here
        """
        if verdict is not Verdict.UNDETERMINED:
            return _NOTHING
        if elsewhere:
            return Lack(Need.HERE, MIN_JOBS, MIN_JOBS)
        if it.hosts == 0:
            return Lack(Need.HOSTS, MIN_JOBS, MIN_JOBS)
        if not it.tested:
            return _first_jobs(it)
        return self._further_hosts(it) if it.method is Method.POOLED else self._further_jobs(it)

    def _further_jobs(self, it: Estimate) -> Lack:
        """Further pairs or runs."""
        so_far = it.runs, it.baseline_runs
        needed = self._needed(it, min(so_far))
        if needed is None:
            return Lack(Need.MARGIN)
        clustered = not it.pairs and so_far != (it.jobs, it.baseline_jobs)
        more = (max(0, needed - each) for each in so_far)
        return Lack(Need.RUNS if clustered else Need.JOBS, *more)

    def _needed(self, it: Estimate, so_far: int) -> int | None:
        """Pairs or runs an arm; ``None`` if they are too many for anybody."""
        planned = jobs_to_verdict(
            math.sqrt(it.log_variance),
            it.effect.d,
            self.log_margin,
            alpha=self.alpha,
            candidates=max(1, self.tested),
        )
        if planned > so_far:
            return planned if planned <= MAX_PLANNED else None
        # Enough by the plan, and still no verdict: by the distance from δ that there really is.
        factor = self._factor(it)
        needed = so_far * factor
        return max(so_far + 1, math.ceil(needed)) if needed <= MAX_PLANNED else None

    def _factor(self, it: Estimate) -> float:
        """How many times as much is needed as there is, if the difference is as it was seen."""
        return (self._wanted(it, it.effect.degrees_of_freedom) * it.effect.standard_error) ** 2

    def _wanted(self, it: Estimate, freedom: float) -> float:
        """One over the standard error that an 80 % chance of a verdict asks for."""
        from scipy.special import stdtrit  # slow, and needed only where something was measured

        beyond = abs(it.effect.d) - self.log_margin
        level, beta = self.alpha / max(1, self.tested), 1 - POWER
        if beyond < 0:  # both one-sided tests of equivalence have to succeed
            level, beta = self.alpha, beta / 2
        t = float(stdtrit(max(1.0, freedom), 1 - level))
        return (t + NormalDist().inv_cdf(1 - beta)) / abs(beyond) if beyond else math.inf

    def _further_hosts(self, it: Estimate) -> Lack:
        """Five jobs on each further host, whose number counts more than the jobs on it."""
        so_far = it.hosts or 0
        if not so_far:
            return Lack(Need.HOSTS, MIN_JOBS, MIN_JOBS)
        for hosts in range(so_far + 1, MAX_HOSTS + 1):
            error = it.effect.standard_error * math.sqrt(so_far / hosts)
            if self._wanted(it, hosts - 1) * error <= 1:
                more = MIN_JOBS * (hosts - so_far)
                return Lack(Need.HOSTS, more, more)
        return Lack(Need.MARGIN)


def _first_jobs(it: Estimate) -> Lack:
    """What is missing for a first verdict."""
    few = max(0, MIN_JOBS - it.jobs), max(0, MIN_JOBS - it.baseline_jobs)
    if (it.runs, it.baseline_runs) == (it.jobs, it.baseline_jobs) and any(few):
        return Lack(Need.JOBS, *few)
    # Pairs are new jobs of both; what there is counts for none of them.
    return Lack(Need.TURNS, MIN_JOBS, MIN_JOBS)
