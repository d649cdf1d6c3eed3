"""The jobs of a stack, and which jobs of two stacks are compared with each other.

A job is one process: one start of its environment in one slot of time. Its repetitions share the
state of the machine, so a job contributes one number, however often it repeated. Jobs of one run
(one inspection of one stack) share the state of the machine on that day; see
:mod:`adviser.scoring.variances`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import NamedTuple

from adviser.scoring.effects import Variance

#: Below this many jobs an arm nothing is claimed: of the 20 ways to deal six jobs into
#: three and three, the most extreme one alone has a two-sided chance of 10 %.
MIN_JOBS = 5


class JobPlace(NamedTuple):
    """Where a job ran and when; ``None`` where nobody said.

    :param block: jobs of one block on one host ran in turns
    :param run: jobs of one run on one host share the state that the machine was in; where it is
        not known, a job has nothing in common with others
    """

    host: str | None = None
    block: str | None = None
    run: str | None = None


UNKNOWN_PLACE = JobPlace()


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


@dataclass(frozen=True, slots=True)
class Sample:
    """The stable jobs of one stack.

    :param label: names the stack for a person
    :param log_rates: ``L`` of each job, in any order
    :param comparison_key: only samples with equal keys are compared
    :param places: of each job, in the order of ``log_rates``; empty if none is known
    :param turn_variances: by host, the variance of one job within the turns that it shared
    """

    label: str
    log_rates: tuple[float, ...]
    comparison_key: str
    places: tuple[JobPlace, ...] = ()
    turn_variances: Mapping[str, Variance] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if self.places and len(self.places) != len(self.log_rates):
            raise ValueError("each job has one place")


@dataclass(frozen=True)
class Arm:
    """The jobs of one stack that take part in one contrast.

    :param rates: of its jobs; of pairs, the mean of each block
    :param runs: their rates run by run; empty of pairs
    :param used: places in the sample
    :param share: mean of one over the number of its jobs in a block
    :param turn_variance: of one of its jobs within turns; ``None`` if unknown
    """

    rates: tuple[float, ...]
    runs: tuple[Sequence[float], ...]
    used: tuple[int, ...]
    share: float = 1.0
    turn_variance: Variance | None = None

    @cached_property
    def means(self) -> list[float]:
        """Of its runs."""
        return [mean_of(run) for run in self.runs]

    @cached_property
    def per_run(self) -> float:
        """Mean of one over the number of jobs of its runs."""
        return math.fsum(1 / len(run) for run in self.runs) / len(self.runs) if self.runs else 1.0


@dataclass(frozen=True, slots=True)
class ArmPair:
    """Jobs from which one effect is estimated: pairs, or two arms."""

    hosts: tuple[str | None, ...]
    ours: Arm
    theirs: Arm
    paired: bool

    @property
    def enough(self) -> bool:
        return min(len(self.ours.rates), len(self.theirs.rates)) >= MIN_JOBS

    @property
    def known_hosts(self) -> int | None:
        return None if None in self.hosts else len(self.hosts)


@dataclass(frozen=True, slots=True)
class EstimationPlan:
    """How one candidate is estimated: from everything, or from ``parts``, which are pooled."""

    whole: ArmPair
    parts: tuple[ArmPair, ...] = ()


#: Places of the jobs of one host in their sample, by block.
_Blocks = Mapping[str | None, Sequence[int]]


@dataclass(frozen=True, slots=True)
class PlacedJobs:
    """The jobs of one stack, by host and block."""

    sample: Sample
    hosts: Mapping[str | None, _Blocks]
    _arms: dict[tuple[str | None, ...], Arm] = field(default_factory=dict)

    def arm(self, hosts: tuple[str | None, ...]) -> Arm:
        """All jobs on some hosts, run by run; the baseline's are asked for again and again."""
        if (found := self._arms.get(hosts)) is None:
            found = self._arms[hosts] = self._arm(hosts)
        return found

    def _arm(self, hosts: tuple[str | None, ...]) -> Arm:
        places, rates = self.sample.places, self.sample.log_rates
        used = [i for host in hosts for them in self.hosts.get(host, {}).values() for i in them]
        runs: dict[object, list[float]] = defaultdict(list)
        for i in used:
            place = places[i] if places else UNKNOWN_PLACE
            runs[i if place.run is None else (place.host, place.run)].append(rates[i])
        return Arm(tuple(rates[i] for i in used), tuple(runs.values()), tuple(used))

    def blocks(self, wanted: Iterable[tuple[str, str]]) -> Arm:
        """One value a block: the mean of its jobs."""
        rates = self.sample.log_rates
        used: list[int] = []
        means: list[float] = []
        shares: list[float] = []
        hosts: set[str] = set()
        for host, block in wanted:
            jobs = self.hosts[host][block]
            used += jobs
            means.append(mean_of([rates[i] for i in jobs]))
            shares.append(1 / len(jobs))
            hosts.add(host)
        alone = self.sample.turn_variances.get(min(hosts)) if len(hosts) == 1 else None
        return Arm(tuple(means), (), tuple(used), mean_of(shares), alone)

    def count(self, host: str | None) -> int:
        return sum(map(len, self.hosts.get(host, {}).values()))


def jobs_by_place(sample: Sample) -> PlacedJobs:
    """The jobs of a sample by host and block, in the order in which they are given."""
    jobs: dict[str | None, dict[str | None, list[int]]] = {}
    if not sample.places:
        all_of_them = list(range(len(sample.log_rates)))
        return PlacedJobs(sample, {None: {None: all_of_them}} if all_of_them else {})
    for i, place in enumerate(sample.places):
        jobs.setdefault(place.host, {}).setdefault(place.block, []).append(i)
    return PlacedJobs(sample, jobs)


def plan_of(ours: PlacedJobs, theirs: PlacedJobs) -> EstimationPlan:
    """Which jobs of two stacks are compared, by where and when they ran alone."""
    # Where one has no job at all, the jobs of the other still count as such.
    some = ours.hosts and theirs.hosts
    hosts = ours.hosts.keys() & theirs.hosts if some else ours.hosts.keys() | theirs.hosts
    shared = tuple(sorted(hosts, key=lambda host: host or ""))
    alone = [_contrast((host,), ours, theirs) for host in shared]
    enough = tuple(contrast for contrast in alone if contrast.enough)
    if len(enough) > 1:
        return EstimationPlan(_contrast(shared, ours, theirs), enough)
    if enough:
        return EstimationPlan(enough[0])
    return EstimationPlan(alone[0] if len(alone) == 1 else _contrast(shared, ours, theirs))


def _contrast(hosts: tuple[str | None, ...], ours: PlacedJobs, theirs: PlacedJobs) -> ArmPair:
    common = [
        (host, block)
        for host in hosts
        if host is not None and host in ours.hosts and host in theirs.hosts
        for block in ours.hosts[host]
        if block is not None and block in theirs.hosts[host]
    ]
    if len(common) >= MIN_JOBS:
        return ArmPair(hosts, ours.blocks(common), theirs.blocks(common), paired=True)
    if len(hosts) > 1 and ours.hosts and theirs.hosts:
        hosts = tuple(sorted(hosts, key=lambda host: _fewest(host, ours, theirs)))[-1:]
    return ArmPair(hosts, ours.arm(hosts), theirs.arm(hosts), paired=False)


def _fewest(host: str | None, ours: PlacedJobs, theirs: PlacedJobs) -> tuple[int, str]:
    """Jobs of the smaller arm on one host; the name settles ties."""
    return min(ours.count(host), theirs.count(host)), host or ""


def mean_of(values: Sequence[float]) -> float:
    """The mean, exactly rounded."""
    return values[0] if len(values) == 1 else math.fsum(values) / len(values)


def within_runs(sample: Sample, used: Iterable[int]) -> Variance:
    """Variance of some jobs within their runs; of all of them, where no run has two.

    :param used: places in the sample
    """
    runs: dict[object, list[float]] = defaultdict(list)
    for i in used:
        place = sample.places[i] if sample.places else UNKNOWN_PLACE
        runs[i if place.run is None else (place.host, place.run)].append(sample.log_rates[i])
    if all(len(run) == 1 for run in runs.values()):
        runs = {None: [rate for run in runs.values() for rate in run]}
    squares = math.fsum((rate - mean_of(run)) ** 2 for run in runs.values() for rate in run)
    freedom = sum(len(run) - 1 for run in runs.values())
    return Variance(squares / freedom if freedom else math.nan, freedom)
