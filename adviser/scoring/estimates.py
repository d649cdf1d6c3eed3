"""From the jobs of two stacks to an effect: in pairs where they ran in turns, host by host.

What two jobs of one block on one host share, such as the hour and the temperature, cancels in
their difference. What all jobs of a host share cancels where both stacks ran on that host; jobs
on a host that only one of the two saw tell the hosts apart, not the stacks, and are left out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from adviser.scoring.effects import (
    Effect,
    Effects,
    FloatArray,
    moments,
    paired_effects,
    welch_effects,
)
from adviser.scoring.hosts import PooledEffect, random_effects
from adviser.scoring.jobs import UNKNOWN_PLACE, Place
from adviser.scoring.planning import MIN_JOBS


class Method(StrEnum):
    """How an effect was estimated."""

    #: Two arms, whose jobs have nothing to do with each other.
    WELCH = "welch"
    #: Differences of jobs that ran in turns.
    PAIRED = "paired"
    #: Effects of several hosts, each by one of the other two.
    POOLED = "pooled"


@dataclass(frozen=True, slots=True)
class Sample:
    """The stable jobs of one stack.

    :param label: names the stack for a person
    :param log_rates: ``L`` of each job, in any order
    :param comparison_key: only samples with equal keys are compared
    :param places: of each job, in the order of ``log_rates``; empty if none is known
    """

    label: str
    log_rates: tuple[float, ...]
    comparison_key: str
    places: tuple[Place, ...] = ()

    def __post_init__(self) -> None:
        if self.places and len(self.places) != len(self.log_rates):
            raise ValueError("each job has one place")


@dataclass(frozen=True, slots=True)
class Estimate:
    """One candidate against the baseline.

    :param jobs, baseline_jobs: that took part; of a pair, one each
    :param log_variance: of a job's log rate, mean of both arms; ``nan`` if unknown
    :param pairs: that took part, 0 where jobs were not paired
    :param hosts: that both stacks ran on and whose jobs took part; ``None`` if unknown
    :param tau: standard deviation of the true effect between hosts, natural log; ``None``
        unless pooled
    """

    effect: Effect
    jobs: int
    baseline_jobs: int
    log_variance: float
    method: Method
    pairs: int
    hosts: int | None
    tau: float | None = None


@dataclass(frozen=True, slots=True)
class _Contrast:
    """Jobs from which one effect is estimated: pairs, or two arms."""

    hosts: tuple[str | None, ...]
    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    paired: bool

    @property
    def enough(self) -> bool:
        return min(len(self.ours), len(self.theirs)) >= MIN_JOBS

    @property
    def known_hosts(self) -> int | None:
        return None if None in self.hosts else len(self.hosts)


@dataclass(frozen=True, slots=True)
class _Plan:
    """How one candidate is estimated: from everything, or from ``parts``, which are pooled."""

    whole: _Contrast
    parts: tuple[_Contrast, ...] = ()


#: Log rates of the jobs of one stack, by host and block.
_Jobs = Mapping[str | None, Mapping[str | None, list[float]]]


def estimates_of(baseline: Sample, candidates: Sequence[Sample]) -> list[Estimate]:
    """Estimate every candidate's effect, in the order given and in one go.

    Each host on which both stacks have five jobs or five pairs is estimated by itself, in
    pairs if there are five; several such hosts are pooled by :func:`random_effects`. Without
    any, the pairs of all hosts that both saw are taken together if there are five. Arms are
    those of one host, where both have most jobs: put together, arms of several hosts would
    tell the hosts apart. A block with several jobs of one stack counts by their mean.
    """
    theirs = _jobs_of(baseline)
    plans = [_plan(_jobs_of(candidate), theirs) for candidate in candidates]
    contrasts = [contrast for plan in plans for contrast in (plan.whole, *plan.parts)]
    estimates = iter(_estimated(contrasts))
    return [_chosen(next(estimates), [next(estimates) for _ in plan.parts]) for plan in plans]


def _jobs_of(sample: Sample) -> _Jobs:
    jobs: dict[str | None, dict[str | None, list[float]]] = defaultdict(lambda: defaultdict(list))
    places = sample.places or (UNKNOWN_PLACE,) * len(sample.log_rates)
    for log_rate, place in zip(sample.log_rates, places, strict=True):
        jobs[place.host][place.block].append(log_rate)
    return jobs


def _plan(ours: _Jobs, theirs: _Jobs) -> _Plan:
    # Where one has no job at all, the jobs of the other still count as such.
    hosts = ours.keys() & theirs.keys() if ours and theirs else ours.keys() | theirs.keys()
    shared = tuple(sorted(hosts, key=lambda host: host or ""))
    alone = [_contrast((host,), ours, theirs) for host in shared]
    enough = tuple(contrast for contrast in alone if contrast.enough)
    if len(enough) > 1:
        return _Plan(_contrast(shared, ours, theirs), enough)
    return _Plan(enough[0] if enough else _contrast(shared, ours, theirs))


def _contrast(hosts: tuple[str | None, ...], ours: _Jobs, theirs: _Jobs) -> _Contrast:
    pairs = [
        (_mean(ours[host][block]), _mean(theirs[host][block]))
        for host in hosts
        if host is not None and host in ours and host in theirs
        for block in ours[host].keys() & theirs[host].keys()
        if block is not None
    ]
    if len(pairs) >= MIN_JOBS:
        mine, others = zip(*pairs, strict=True)
        return _Contrast(hosts, mine, others, paired=True)
    if ours and theirs:
        hosts = tuple(sorted(hosts, key=lambda host: _fewest(host, ours, theirs)))[-1:]
    return _Contrast(hosts, _arm(ours, hosts), _arm(theirs, hosts), paired=False)


def _fewest(host: str | None, ours: _Jobs, theirs: _Jobs) -> tuple[int, str]:
    """Jobs of the smaller arm on one host; the name settles ties."""
    return min(len(_arm(ours, (host,))), len(_arm(theirs, (host,)))), host or ""


def _arm(jobs: _Jobs, hosts: tuple[str | None, ...]) -> tuple[float, ...]:
    return tuple(rate for host in hosts for rates in jobs.get(host, {}).values() for rate in rates)


def _mean(values: Sequence[float]) -> float:
    return values[0] if len(values) == 1 else math.fsum(values) / len(values)


def _estimated(contrasts: Sequence[_Contrast]) -> list[Estimate]:
    """All contrasts at once: arrays with an entry each, whichever way they go."""
    ours = moments([() if it.paired else it.ours for it in contrasts])
    theirs = moments([() if it.paired else it.theirs for it in contrasts])
    differences = moments([_differences(it) if it.paired else () for it in contrasts])
    paired = np.array([it.paired for it in contrasts], dtype=np.bool_)
    effects = _either(paired, paired_effects(differences), welch_effects(ours, theirs))
    variance = np.where(paired, differences.variance, ours.variance + theirs.variance) / 2
    return [
        Estimate(
            effect=effects.single(i),
            jobs=len(contrast.ours),
            baseline_jobs=len(contrast.theirs),
            log_variance=float(variance[i]),
            method=Method.PAIRED if contrast.paired else Method.WELCH,
            pairs=len(contrast.ours) if contrast.paired else 0,
            hosts=contrast.known_hosts,
        )
        for i, contrast in enumerate(contrasts)
    ]


def _differences(contrast: _Contrast) -> list[float]:
    return [a - b for a, b in zip(contrast.ours, contrast.theirs, strict=True)]


def _either(condition: NDArray[np.bool_], yes: Effects, no: Effects) -> Effects:
    def chosen(a: FloatArray, b: FloatArray) -> FloatArray:
        return np.where(condition, a, b)

    return Effects(
        chosen(yes.d, no.d),
        chosen(yes.standard_error, no.standard_error),
        chosen(yes.degrees_of_freedom, no.degrees_of_freedom),
    )


def _chosen(whole: Estimate, parts: Sequence[Estimate]) -> Estimate:
    if not parts:
        return whole
    try:
        pooled = random_effects([part.effect for part in parts])
    except ValueError:  # readings without any spread cannot be weighed against others
        return whole
    return _pooled(pooled, parts)


def _pooled(pooled: PooledEffect, parts: Sequence[Estimate]) -> Estimate:
    jobs = sum(part.jobs for part in parts)
    theirs = sum(part.baseline_jobs for part in parts)
    known = [part.hosts for part in parts if part.hosts is not None]
    return Estimate(
        effect=pooled.effect,
        jobs=jobs,
        baseline_jobs=theirs,
        # The spread of jobs that would give this error with two arms of that many.
        log_variance=pooled.effect.standard_error**2 / (1 / jobs + 1 / theirs),
        method=Method.POOLED,
        pairs=sum(part.pairs for part in parts),
        hosts=sum(known) if len(known) == len(parts) else None,
        tau=pooled.tau,
    )
