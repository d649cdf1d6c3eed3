"""What an undetermined comparison lacks: jobs, turns, runs, hosts, or what no jobs can give."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from adviser.scoring.effects import Effects, FloatArray
from adviser.scoring.estimates import Estimate
from adviser.scoring.jobs import MIN_JOBS
from adviser.scoring.prediction import OpenEffects, effect_prior, outlook


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
    #: More than 1,000 jobs: the difference is too close to δ, or the jobs vary too much.
    MARGIN = "margin"


@dataclass(frozen=True, slots=True)
class Lack:
    """What a comparison lacks.

    :param need: ``None`` where it is settled
    :param jobs: further ones of the candidate that make a verdict likely; of :attr:`Need.RUNS`
        each in a run of its own; 0 where it is not a matter of jobs
    :param baseline_jobs: the same of the baseline
    :param chance: that these jobs settle it as faster or slower; 0 where too little is known
    """

    need: Need | None = None
    jobs: int = 0
    baseline_jobs: int = 0
    chance: float = 0.0


_NOTHING = Lack()


@dataclass(frozen=True, slots=True)
class JudgedFamily:
    """All comparisons of one answer after they were judged, one entry each.

    :param estimates: how each was estimated
    :param effects: their effects, widened where they come from elsewhere
    :param planned: whether it is asked what each lacks; not where it has a verdict
    :param elsewhere: whether each was measured in other circumstances than the answer is for
    :param log_margin: ``ln(1 + δ)``
    :param alpha: the part of α that each has
    :param series: number of the series of each; comparisons of one series inform each other
    """

    estimates: Sequence[Estimate]
    effects: Effects
    planned: NDArray[np.bool_]
    elsewhere: NDArray[np.bool_]
    log_margin: FloatArray
    alpha: FloatArray
    series: Sequence[int]

    def lacks(self) -> list[Lack]:
        """What each comparison lacks."""
        lacks = [self._without_jobs(i) for i in range(len(self.estimates))]
        by_series: dict[int, list[int]] = defaultdict(list)
        for i, number in enumerate(self.series):
            by_series[number].append(i)
        for places in by_series.values():
            still_open = [i for i in places if lacks[i] is None]
            if still_open:
                known = [i for i in places if self.estimates[i].tested]
                for i, lack in self._with_jobs(still_open, known):
                    lacks[i] = lack
        return [it or _NOTHING for it in lacks]

    def _without_jobs(self, i: int) -> Lack | None:
        """What is known without planning further jobs; ``None`` where these have to be planned."""
        it = self.estimates[i]
        if not self.planned[i]:
            return _NOTHING
        if self.elsewhere[i]:
            return Lack(Need.HERE, MIN_JOBS, MIN_JOBS)
        if it.hosts == 0:
            return Lack(Need.HOSTS, MIN_JOBS, MIN_JOBS)
        return None if it.tested else _first_jobs(it)

    def _with_jobs(self, places: Sequence[int], known: Sequence[int]) -> list[tuple[int, Lack]]:
        """Further pairs, runs or hosts for the open comparisons of one series."""
        chosen = np.array(places)
        comparisons = OpenEffects(
            _taken(self.effects, chosen),
            np.array([_units(self.estimates[i]) for i in places], dtype=np.float64),
            self.log_margin[chosen],
            np.array([self.estimates[i].own_freedom for i in places]),
            self.alpha[chosen],
        )
        seen = outlook(comparisons, effect_prior(_taken(self.effects, np.array(known))))
        return [
            (i, _further(self.estimates[i], int(seen.more[n]), float(seen.chance[n])))
            for n, i in enumerate(places)
        ]


def _units(it: Estimate) -> int:
    """Pairs or runs so far; hosts where these disagree."""
    return min(it.runs, it.baseline_runs) if it.hosts_agree else it.hosts or 1


def _further(it: Estimate, more: int, chance: float) -> Lack:
    if not more:
        return Lack(Need.MARGIN)
    if not it.hosts_agree:
        return Lack(Need.HOSTS, MIN_JOBS * more, MIN_JOBS * more, chance)
    so_far = it.runs, it.baseline_runs
    needed = min(so_far) + more
    clustered = not it.pairs and so_far != (it.jobs, it.baseline_jobs)
    ours, theirs = (max(0, needed - each) for each in so_far)
    return Lack(Need.RUNS if clustered else Need.JOBS, ours, theirs, chance)


def _taken(effects: Effects, places: NDArray[np.int64]) -> Effects:
    return Effects(
        effects.d[places], effects.standard_error[places], effects.degrees_of_freedom[places]
    )


def _first_jobs(it: Estimate) -> Lack:
    """What is missing for a first verdict."""
    few = max(0, MIN_JOBS - it.jobs), max(0, MIN_JOBS - it.baseline_jobs)
    if (it.runs, it.baseline_runs) == (it.jobs, it.baseline_jobs) and any(few):
        return Lack(Need.JOBS, *few)
    # Pairs are new jobs of both; what there is counts for none of them.
    return Lack(Need.TURNS, MIN_JOBS, MIN_JOBS)
