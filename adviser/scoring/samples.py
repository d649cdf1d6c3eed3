"""Select which jobs of two stacks are compared with each other.

A job is one process, which starts its environment once and runs in one slot of time. The
repetitions of a job share the state of the machine, so a job contributes one number, however many
repetitions it has. Jobs of one run (one inspection of one stack) share the state of the machine on
that day; see :mod:`adviser.scoring.variances`.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from adviser.scoring.effects import Variance

#: Minimum number of jobs per arm for a claim. With three jobs per arm there are only 20 ways to
#: divide them, so even the most extreme one has a two-sided p-value of 10 %.
MIN_JOBS = 5
#: Longer gaps between two jobs are pauses, s.
_LONGEST_GAP_S = 4 * 3600.0


class JobPlace(NamedTuple):
    """Where and when a job ran; ``None`` if unknown.

    :param block: jobs of one block on one host ran in turns
    :param run: jobs of one run on one host share the state of the machine; a job of an unknown
        run is independent of all others
    :param seen_at: when it ended
    :param session: of a pack, the occasion that several runs may share; see
        :class:`model.measurements.evidence.Reading`
    """

    host: str | None = None
    block: str | None = None
    run: str | None = None
    seen_at: datetime | None = None
    session: str | None = None

    @property
    def occasion(self) -> str | None:
        """The session or, if unknown, the run: its jobs share the state of the machine."""
        return self.session or self.run


UNKNOWN_PLACE = JobPlace()


def job_seconds(places: Iterable[JobPlace]) -> float | None:
    """The median time from the end of a job to the end of the next one on its host, s.

    :param places: of all jobs of a series, in any order
    :returns: ``None`` if no two jobs followed each other
    """
    ends: dict[str | None, list[float]] = defaultdict(list)
    for place in places:
        if place.seen_at is not None:
            ends[place.host].append(place.seen_at.timestamp())
    gaps = [
        later - earlier for times in ends.values() for earlier, later in pairwise(sorted(times))
    ]
    known = [it for it in gaps if 0 < it <= _LONGEST_GAP_S]
    return median(known) if known else None


def in_batches(blocks: Mapping[tuple[str, str], Sequence[JobPlace]]) -> list[list[tuple[str, str]]]:
    """Blocks by batch, in the order of time; the runs of their jobs link the blocks of a batch.

    A block with a job of an unknown run is a batch of its own.

    :param blocks: the places of the jobs of each block, by host and name of the block
    """
    linked: dict[tuple[str, str], tuple[str, str]] = {}

    def first(run: tuple[str, str]) -> tuple[str, str]:
        while (earlier := linked.setdefault(run, run)) != run:
            run = earlier
        return run

    known = {}
    for block, places in blocks.items():
        runs = {it.occasion for it in places}
        if None not in runs:
            roots = {first((block[0], it or "")) for it in runs}
            known[block] = root = min(roots)
            for other in roots:
                linked[other] = root
    batches: dict[tuple[Any, ...], list[tuple[str, str]]] = defaultdict(list)
    for block in blocks:
        batches[("run", *first(known[block])) if block in known else ("block", *block)].append(
            block
        )
    for batch in batches.values():
        batch.sort(key=lambda it: _time_of(it[1], blocks[it]))
    return [batches[name] for name in sorted(batches)]


def _time_of(block: str, places: Sequence[JobPlace]) -> tuple[float, int, str]:
    """Sort key of a block: when its first job ended, then the number at the end of its name."""
    first = min((it.seen_at for it in places if it.seen_at is not None), default=None)
    return first.timestamp() if first else 0.0, _number_of(block), block


@lru_cache(maxsize=4096)
def _number_of(block: str) -> int:
    number = re.search(r"[0-9]{1,18}$", block)
    return int(number[0]) if number else 0


def job_log_rate(rates: Sequence[float]) -> float:
    """``L``, the natural log of the median of a job's repetitions.

    Logarithms turn ratios of rates into differences, and swapping the arms only changes the sign
    (Fleming & Wallace 1986, doi:10.1145/5666.5673).

    :param rates: one rate per repetition, positive and finite, in any order
    :raises ValueError: if there is no rate, or a rate is not positive and finite

    >>> job_log_rate([1.0, math.e, 100.0])
    1.0
    """
    if len(rates) == 1 and 0 < rates[0] < math.inf:  # the usual case
        return math.log(rates[0])
    if not rates or not all(0 < rate < math.inf for rate in rates):
        raise ValueError("a job's rates are one or more positive finite numbers")
    return math.log(median(rates))


@dataclass(frozen=True, slots=True)
class Sample:
    """The stable jobs of one stack.

    :param label: name of the stack for people
    :param log_rates: ``L`` of each job, in any order
    :param comparison_key: only samples with equal keys are compared
    :param places: place of each job, in the order of ``log_rates``; empty if all are unknown
    :param turn_variances: by host, the variance of a job within shared turns
    :param tick: the largest step of a job's clock as a share of the time that it measured; 0 if
        unknown
    """

    label: str
    log_rates: tuple[float, ...]
    comparison_key: str
    places: tuple[JobPlace, ...] = ()
    turn_variances: Mapping[str, Variance] = field(default_factory=dict, compare=False)
    tick: float = 0.0

    def __post_init__(self) -> None:
        if self.places and len(self.places) != len(self.log_rates):
            raise ValueError("each job has one place")


@dataclass(frozen=True)
class Arm:
    """The jobs of one stack in one comparison.

    :param rates: log rates of the jobs; if paired, the mean of each block
    :param runs: log rates by run; empty if paired
    :param used: indexes of the jobs in the sample
    :param readings: log rates of these jobs
    :param tick: as in the sample
    :param share: mean over blocks of 1 / number of jobs in the block
    :param turn_variance: variance of a job within turns; ``None`` if unknown
    """

    rates: tuple[float, ...]
    runs: tuple[Sequence[float], ...]
    used: tuple[int, ...]
    readings: tuple[float, ...] = ()
    tick: float = 0.0
    share: float = 1.0
    turn_variance: Variance | None = None

    @cached_property
    def means(self) -> list[float]:
        """Mean of each run."""
        return [mean_of(run) for run in self.runs]

    @cached_property
    def per_run(self) -> float:
        """The mean, over runs, of 1 divided by the number of jobs in the run."""
        return math.fsum(1 / len(run) for run in self.runs) / len(self.runs) if self.runs else 1.0


@dataclass(frozen=True, slots=True)
class ArmPair:
    """The jobs of two stacks from which one effect is estimated, in pairs or as two arms.

    :param batches: number of pairs of each batch, whose pairs follow each other in the order of
        time; empty unless paired
    :param turns: number of blocks in which both have stable jobs; ``None`` if they never ran in
        turns
    """

    hosts: tuple[str | None, ...]
    ours: Arm
    theirs: Arm
    batches: tuple[int, ...] = ()
    turns: int | None = None

    @property
    def paired(self) -> bool:
        return bool(self.batches)

    @property
    def enough(self) -> bool:
        return min(len(self.ours.rates), len(self.theirs.rates)) >= MIN_JOBS

    @property
    def known_hosts(self) -> int | None:
        return None if None in self.hosts else len(self.hosts)


@dataclass(frozen=True, slots=True)
class EstimationPlan:
    """How a candidate is estimated: from all jobs, or from ``parts`` (hosts) that are pooled."""

    whole: ArmPair
    parts: tuple[ArmPair, ...] = ()


#: Indexes of the jobs of one host in their sample, by block.
_Blocks = Mapping[str | None, Sequence[int]]


@dataclass(frozen=True, slots=True)
class PlacedJobs:
    """The jobs of one stack, by host and block."""

    sample: Sample
    hosts: Mapping[str | None, _Blocks]
    _arms: dict[tuple[str | None, ...], Arm] = field(default_factory=dict)

    def arm(self, hosts: tuple[str | None, ...]) -> Arm:
        """All jobs on these hosts, by run; cached, since the baseline is compared many times."""
        if (arm := self._arms.get(hosts)) is None:
            arm = self._arms[hosts] = self._arm(hosts)
        return arm

    def _arm(self, hosts: tuple[str | None, ...]) -> Arm:
        places, rates = self.sample.places, self.sample.log_rates
        used = [i for host in hosts for them in self.hosts.get(host, {}).values() for i in them]
        runs: dict[object, list[float]] = defaultdict(list)
        for i in used:
            place = places[i] if places else UNKNOWN_PLACE
            run = place.occasion
            runs[i if run is None else (place.host, run)].append(rates[i])
        values = tuple(rates[i] for i in used)
        return Arm(values, tuple(runs.values()), tuple(used), values, self.sample.tick)

    def blocks(self, wanted: Iterable[tuple[str, str]]) -> Arm:
        """The jobs of these blocks, with one value per block: the mean of its jobs."""
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
        return Arm(
            tuple(means), (), tuple(used), tuple(rates[i] for i in used), self.sample.tick,
            mean_of(shares), alone,
        )  # fmt: skip

    def places(self, block: tuple[str, str]) -> list[JobPlace]:
        """The places of the jobs of a block."""
        return [self.sample.places[i] for i in self.hosts[block[0]][block[1]]]

    def count(self, host: str | None) -> int:
        return sum(map(len, self.hosts.get(host, {}).values()))


def jobs_by_place(sample: Sample) -> PlacedJobs:
    """The jobs of a sample by host and block, in the given order."""
    jobs: dict[str | None, dict[str | None, list[int]]] = {}
    if not sample.places:
        all_jobs = list(range(len(sample.log_rates)))
        return PlacedJobs(sample, {None: {None: all_jobs}} if all_jobs else {})
    for i, place in enumerate(sample.places):
        jobs.setdefault(place.host, {}).setdefault(place.block, []).append(i)
    return PlacedJobs(sample, jobs)


def plan_of(ours: PlacedJobs, theirs: PlacedJobs) -> EstimationPlan:
    """Plan which jobs of two stacks are compared. Only where and when the jobs ran decides."""
    # If one stack has no jobs, the jobs of the other still count; without any, no host is known.
    both = ours.hosts and theirs.hosts
    hosts = ours.hosts.keys() & theirs.hosts if both else ours.hosts.keys() | theirs.hosts or {None}
    shared = tuple(sorted(hosts, key=lambda host: host or ""))
    alone = [_arm_pair((host,), ours, theirs) for host in shared]
    enough = tuple(pair for pair in alone if pair.enough)
    if len(enough) > 1:
        return EstimationPlan(_arm_pair(shared, ours, theirs), enough)
    if enough:
        return EstimationPlan(enough[0])
    return EstimationPlan(alone[0] if len(alone) == 1 else _arm_pair(shared, ours, theirs))


def _arm_pair(hosts: tuple[str | None, ...], ours: PlacedJobs, theirs: PlacedJobs) -> ArmPair:
    common = [
        (host, block)
        for host in hosts
        if host is not None and host in ours.hosts and host in theirs.hosts
        for block in ours.hosts[host]
        if block is not None and block in theirs.hosts[host]
    ]
    if len(common) >= MIN_JOBS:
        batches = in_batches({it: (*ours.places(it), *theirs.places(it)) for it in common})
        common = [block for batch in batches for block in batch]
        sizes = tuple(map(len, batches))
        return ArmPair(hosts, ours.blocks(common), theirs.blocks(common), sizes, len(common))
    if len(hosts) > 1 and ours.hosts and theirs.hosts:
        hosts = tuple(sorted(hosts, key=lambda host: _fewest(host, ours, theirs)))[-1:]
    in_turns = common or _invocations(hosts, ours) & _invocations(hosts, theirs)
    turns = len(common) if in_turns else None
    return ArmPair(hosts, ours.arm(hosts), theirs.arm(hosts), (), turns)


def _invocations(hosts: Iterable[str | None], jobs: PlacedJobs) -> set[tuple[str, str]]:
    """The interleaved runs of the executor with stable jobs; it names a block ``RUN:NUMBER``."""
    return {
        (host, block.rpartition(":")[0])
        for host in hosts
        if host is not None
        for block in jobs.hosts.get(host, ())
        if block is not None and ":" in block
    }


def _fewest(host: str | None, ours: PlacedJobs, theirs: PlacedJobs) -> tuple[int, str]:
    """Sort key of a host: the number of jobs of its smaller arm, then the host's name."""
    return min(ours.count(host), theirs.count(host)), host or ""


def mean_of(values: Sequence[float]) -> float:
    """The mean, from an exactly rounded sum."""
    return values[0] if len(values) == 1 else math.fsum(values) / len(values)


def within_runs(sample: Sample, used: Iterable[int]) -> Variance:
    """The variance of jobs within their runs, or of all jobs together if no run has two jobs.

    :param used: indexes of the jobs in the sample
    """
    runs: dict[object, list[float]] = defaultdict(list)
    for i in used:
        place = sample.places[i] if sample.places else UNKNOWN_PLACE
        run = place.occasion
        runs[i if run is None else (place.host, run)].append(sample.log_rates[i])
    if all(len(run) == 1 for run in runs.values()):
        runs = {None: [rate for run in runs.values() for rate in run]}
    squares = math.fsum((rate - mean_of(run)) ** 2 for run in runs.values() for rate in run)
    freedom = sum(len(run) - 1 for run in runs.values())
    return Variance(squares / freedom if freedom else math.nan, freedom)
